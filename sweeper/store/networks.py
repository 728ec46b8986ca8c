"""Reading the networks of committed trials."""

import numpy as np

from sweeper.store.committed_rows import Entry
from sweeper.store.details import whole_detail
from sweeper.store.files import StoreError
from sweeper.store.seal import DamagedError
from sweeper.store.sealed_network import weights_of
from sweeper.store.store import Store


class NoNetworkError(StoreError):
    """A trial without a network in the store; the message ends a sentence that begins with its id."""


def stored_weights(store: Store, entry: Entry) -> dict[str, np.ndarray]:
    """The weights of a committed trial's network, by name; the arrays can only be read.

    A trial with a damaged network is set aside.

    Raises:
        NoNetworkError: the trial has no network.
        StoreError: the store cannot be read.
    """
    name, file = entry.detail("networks")
    if entry.seal.status == "failed":
        raise NoNetworkError("failed, and has no network")
    if file is None:
        raise NoNetworkError("has no network: it was trained with resources.networks: false, or by an older program")
    try:
        whole = whole_detail(store.files, "networks", name)
        if whole is None:
            raise NoNetworkError("has no network any more: its file was deleted")
        if not file.is_file(whole.mark.digest):
            raise NoNetworkError("has no network: the file in its place is of another run")
        return weights_of(whole.data)
    except DamagedError as error:
        store.verify("networks", [entry.seal.trial_id])
        raise NoNetworkError(f"has a damaged network, which {error}") from error
