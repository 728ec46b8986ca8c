"""The commands of `sweeper COMMAND`, a module each."""
