"""Starts: what a command does from its input to the table at the end, with everything below it."""
