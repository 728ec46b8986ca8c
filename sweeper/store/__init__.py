"""The store: atomic files, sealed rows, and records of sweeps."""
