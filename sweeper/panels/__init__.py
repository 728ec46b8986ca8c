"""What a search space may declare under `panels:`, without how it is drawn."""
