"""What a trial is: records, the contracts of tasks and models, identity, plug-ins, provenance."""
