"""The search methods that a space may name; a new method is a module and a name here."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from sweeper.space.grid_search import GridSearch
from sweeper.space.halving_search import HalvingSearch
from sweeper.space.optuna_search import OptunaSearch
from sweeper.space.random_search import RandomSearch

Method = GridSearch | RandomSearch | OptunaSearch | HalvingSearch


def _grid_by_default(value: Any) -> Any:
    return {"method": "grid", **value} if isinstance(value, dict) else value


SearchMethod = Annotated[Method, Field(discriminator="method"), BeforeValidator(_grid_by_default)]
"""The record under `search:`; a grid where no method is given."""
