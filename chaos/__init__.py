"""The fault suite: breaks running sweeps in every way that a cluster knows, and counts what was lost.

    python -m chaos [FAULT ...] [--times N] [--seed 0]

A fault is a function of an `attack.Attack` with an entry in `attack.FAULTS`. It disturbs sweeps, prints what it did,
and the attack says what became of them: how many committed trials were lost, doubled or run again, and how many rows
have other bits than a sweep that nothing disturbed.

All of it is real: processes of the command, of Ray and of its workers are killed by their ids; file systems are full or
read-only; copies of the project are edited. Only processes that were started here are touched. The moments are drawn
from the seed.

`docs/reliability.md` holds the figures of the last complete run.
"""
