"""Trials of a store in the experiment trackers that people already use, one tracker a file.

A sweep becomes what the tracker calls an experiment or a project, under its own name, and each trial that the
latest start of the sweep planned becomes a run. The store stays the truth: an export can be repeated at any time, and
adds what is new. A run names its trial and the row of the store that it was made of, so a trial that was run again
replaces its run, and a run that a killed export left half written is written again.

Optuna has a study instead, which is made anew (`optuna_study`). No tracker is imported before it is asked for; each is
an extra of this package.
"""
