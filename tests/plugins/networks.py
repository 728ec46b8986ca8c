"""A network that tests fill in where they need it."""

from sweeper.trial.contracts import Network


class PartialNetwork(Network):
    """Offers nothing; a test overrides what its task asks for."""

    @property
    def depth(self):
        raise NotImplementedError

    def content(self, tokens):
        raise NotImplementedError

    def placed(self, positions):
        raise NotImplementedError

    def embed(self, tokens, positions=None):
        raise NotImplementedError

    def __call__(self, tokens, mask, positions=None):
        raise NotImplementedError

    def empty_memory(self, tokens):
        raise NotImplementedError

    def step(self, h, past):
        raise NotImplementedError
