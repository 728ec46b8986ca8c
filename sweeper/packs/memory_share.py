"""The share of an accelerator's memory that JAX gives to a process."""

import os


def memory_share() -> dict[str, str]:
    """The environment variable for it, to be set before JAX looks for devices; none if the user has set a share."""
    if {"XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"} & os.environ.keys():
        return {}
    # A quarter of the memory would stay out of reach, also without preallocation.
    return {"XLA_CLIENT_MEM_FRACTION": "0.95"}
