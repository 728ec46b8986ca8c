"""The fault suite: breaks running sweeps in every way that a cluster knows, and counts what was lost.

    python -m chaos [FAULT ...] [--times N] [--seed 0]

Each fault is a function of `process_faults`, `storage_faults` or `code_faults`. It prints what it did and returns a
`Finding`: how often the fault was injected, and how many committed trials were lost, doubled or run again afterwards.
All of it is real: processes of the command, of Ray and of bare workers are killed by their ids; file systems are full
or read-only; copies of the project are edited. Only processes that were started here are touched.

`docs/reliability.md` holds the figures of the last complete run.
"""
