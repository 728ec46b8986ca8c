"""Experiments: any training that is a few pure functions (docs/adding-an-experiment.md)."""
