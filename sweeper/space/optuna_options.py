"""Samplers and pruners of Optuna, which a space names with arguments of their classes beside the name.

The arguments are those of the installed Optuna, by the signatures of its classes: each argument whose type is plain,
such as a number, with the name and the default that it has there. A record of them is made where a space names some, so
that a space without them does not import Optuna.
"""

import functools
import inspect
import warnings
from collections.abc import Mapping
from typing import Any, Self

from pydantic import ValidationError, ValidationInfo, create_model, model_validator
from pydantic_core import InitErrorDetails

from sweeper.messages import instead
from sweeper.trial.record import Spec

_PLAIN: Mapping[str, Any] = {"int": int, "float": float, "bool": bool, "str": str, "None": None}

AS_RECORDED = object()
"""The context of a validation that takes the arguments as they are, which may be those of another Optuna."""


class OptunaOptions(Spec, extra="allow"):
    """A sampler or a pruner, with arguments of its class beside the name."""

    name: str

    @model_validator(mode="after")
    def _taken(self, info: ValidationInfo) -> Self:
        """Refuse arguments that the class does not know, or refuses when it is made and used."""
        if not self.model_fields_set or info.context is AS_RECORDED:
            return self
        given, arguments = self.model_extra or {}, _arguments(self.kind)
        known = [*type(self).model_fields, *arguments.model_fields]
        errors = {
            name: ValueError(f"unknown key '{name}'{instead(name, known)}") for name in given if name not in known
        }
        if errors:
            raise ValidationError.from_exception_data(
                self.name,
                [
                    InitErrorDetails(type="value_error", loc=(name,), input=given[name], ctx={"error": error})
                    for name, error in errors.items()
                ],
            )
        arguments.model_validate(given)
        try:
            self.tried()
        except (ValueError, TypeError, ArithmeticError, NotImplementedError) as error:
            blamed = next((f"{name}: " for name in given if name in str(error)), "")
            raise ValueError(f"{blamed}{error}") from None
        return self

    @property
    def kind(self) -> type:
        """The class of Optuna."""
        raise NotImplementedError

    def with_arguments(self, **others: Any) -> Any:
        """The sampler or pruner, with the arguments that stand beside its name, and others."""
        import optuna

        # The user chose the sampler in the space, so its warnings about itself would say nothing new.
        parameters = inspect.signature(self.kind).parameters.values()
        quiet = {each.name: False for each in parameters if each.name.startswith("warn_") and each.default is True}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            return self.kind(**quiet, **others, **(self.model_extra or {}))

    def tried(self) -> None:
        """Make and use the sampler or pruner, which may then refuse its arguments."""
        self.with_arguments()


@functools.cache
def _arguments(kind: type) -> type[Spec]:
    """The record of the plain arguments of a class."""
    fields: dict[str, Any] = {}
    for name, parameter in inspect.signature(kind).parameters.items():
        annotation = parameter.annotation
        words = (annotation.__name__ if isinstance(annotation, type) else str(annotation)).split(" | ")
        if name != "seed" and not name.startswith("warn_") and all(word in _PLAIN for word in words):
            union = functools.reduce(lambda one, other: one | other, (_PLAIN[word] for word in words))
            fields[name] = (union, ... if parameter.default is parameter.empty else parameter.default)
    return create_model(kind.__name__, __base__=Spec, **fields)
