"""What runs at once: packs, the plan, a pack's run and its checkpoints. No Ray."""
