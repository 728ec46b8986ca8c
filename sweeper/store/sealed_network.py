"""Weights of networks in safetensors files that prove themselves whole.

A safetensors file is the length of a header, the header (JSON), and the numbers of the tensors; nothing in it can be
executed, and tools of many languages read it. The header's metadata have one entry, `sweeper`: JSON with the `digest`
of the whole file, with the digest's own place zeroed, and the `seal` (`sweeper.store.seal`).

The file may come from a stranger. Nothing in it is compressed, so it takes no more memory than it has bytes; its size
and that of its header are bounded.
"""

import json
import re
from collections.abc import Mapping

import numpy as np
import safetensors.numpy
from pydantic_core import from_json
from safetensors import SafetensorError

from sweeper.store.seal import DamagedError, DetailFile, Seal, SealedFile, digest_without, seal_of, text_of

LARGEST_NETWORK = 2**30
"""Bytes of the largest network that is kept or read."""

LARGEST_HEADER = 2**20
"""Bytes of the largest header, which has about 100 for each tensor."""

_LENGTH = 8
_DIGEST = re.compile(rb'\\"digest\\":\\"([0-9a-f]{32})\\"')
"""The digest as it stands in the header, where the quotation marks of a text are escaped."""


def sealed_network(weights: Mapping[str, np.ndarray], seal: Seal) -> SealedFile:
    """A safetensors file of the weights, sealed.

    Raises:
        ValueError: the network is larger than networks may be, or has numbers of a type that safetensors lacks.
    """
    metadata = {"sweeper": json.dumps({"digest": "0" * 32, "seal": text_of(seal)}, separators=(",", ":"))}
    tensors = {name: np.ascontiguousarray(values).reshape(np.shape(values)) for name, values in weights.items()}
    try:
        data = safetensors.numpy.save(tensors, metadata)
    except SafetensorError as error:
        raise ValueError(f"the network cannot be kept (resources.networks: false leaves it out): {error}") from error
    place = _DIGEST.search(data, _LENGTH, _header_end(data))
    if place is None or len(data) > LARGEST_NETWORK:
        raise ValueError(
            f"a network of {len(weights):,} tensors and {len(data):,} bytes is too large to be kept: "
            "resources.networks: false leaves it out"
        )
    start, end = place.span(1)
    digest = digest_without(data, start, end)
    return SealedFile(data[:start] + digest + data[end:], DetailFile(len(data), digest.decode()))


def unsealed_network(data: bytes, name: str) -> str:
    """The digest of a network's file, after proof that the file is whole.

    Args:
        data: The file.
        name: Name of the row that the network must belong to, below `trials`.

    Raises:
        DamagedError: it is not whole, or belongs to another trial.
        StoreError: a newer version of this program wrote it.
    """
    if not data:
        raise DamagedError("is empty")
    end = _header_end(data)
    place = _DIGEST.search(data, _LENGTH, end)
    if place is None:
        raise DamagedError("is truncated or was not written by a sweep")
    if digest_without(data, *place.span(1)) != place[1]:
        raise DamagedError("was altered: its digest does not fit")
    try:
        seal = seal_of(from_json(from_json(data[_LENGTH:end])["__metadata__"]["sweeper"])["seal"], "seal", name)
    except (ValueError, TypeError, LookupError) as error:
        raise DamagedError("has a seal of no known form") from error
    if seal.kind != "networks" or seal.name != name:
        raise DamagedError("is the file of another trial")
    weights_of(data)
    return place[1].decode()


def network_digest(data: bytes) -> str | None:
    """The digest that a network's file carries, unproven; None if it carries none."""
    place = _DIGEST.search(data, _LENGTH, _header_end(data))
    return None if place is None else place[1].decode()


def weights_of(data: bytes) -> dict[str, np.ndarray]:
    """The weights in a network's file by name; the arrays can only be read.

    Raises:
        DamagedError: it is no safetensors file of known types of numbers.
    """
    try:
        return safetensors.numpy.load(data)
    except (SafetensorError, ValueError, KeyError) as error:
        raise DamagedError(f"is no safetensors file: {error}") from error


def _header_end(data: bytes) -> int:
    """Where the header ends; its start if it is too large or not whole."""
    end = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
    return end if len(data) >= end and end <= LARGEST_HEADER else _LENGTH
