"""Optimisers: records of settings that move weights, by gradients or by an evolution strategy."""
