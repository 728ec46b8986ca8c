"""Commands that are reached as `sweeper COMMAND`, or `python -m sweeper COMMAND`, and not as `sweeper.COMMAND`."""
