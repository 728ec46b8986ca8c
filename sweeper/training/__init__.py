"""Numerics: objective, trainers, evaluation. No store, no Ray."""
