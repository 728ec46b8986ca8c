"""The commands of `sweeper COMMAND`, by what they are for: run sweeps, ask stores, change stores, write plug-ins."""
