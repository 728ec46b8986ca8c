"""Packs: the plan, the run of a pack, and its checkpoints. No Ray."""
