"""Sweeps of small JAX trainings: one YAML, one command, one open results store."""

__version__ = "0.1.0"
