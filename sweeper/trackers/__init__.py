"""Trials of a store in the experiment trackers that people already use, one tracker a file.

A sweep becomes what the tracker calls an experiment or a project, under its own name, and each trial that the
latest start of the sweep planned becomes a run. The store stays the truth: an export can be repeated at any time, and
adds what is new. A run is that of one row of a trial, so a trial that was run again has a further run.

Optuna has a study instead, which is made anew (`optuna_study`). No tracker is imported before it is asked for; each is
an extra of this package.
"""
