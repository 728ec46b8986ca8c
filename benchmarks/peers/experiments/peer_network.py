"""The work `network` of `benchmarks.peers` as an experiment of this project."""

from typing import Literal

from benchmarks.peers import works
from benchmarks.peers.ours import Training


class Experiment(Training):
    """Each trial is a learning rate and a training seed."""

    work = works.named("network")
    lanes_together = work.together

    name: Literal["peer_network"] = "peer_network"
