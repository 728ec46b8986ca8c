"""Trials: records, the contracts of tasks and models, identity, plug-ins, provenance."""
