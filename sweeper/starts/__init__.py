"""Starts of sweeps and evaluations: from the input of the command to the table at the end."""
