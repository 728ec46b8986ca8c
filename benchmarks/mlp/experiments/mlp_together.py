"""The same network, whose lanes are trained together."""

from typing import Literal

from experiments import mlp_in_turns  # pyright: ignore[reportAttributeAccessIssue]  # of this folder's project


class Experiment(mlp_in_turns.Experiment):
    """As `mlp_in_turns`."""

    lanes_together = True

    name: Literal["mlp_together"] = "mlp_together"
