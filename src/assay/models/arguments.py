"""Model arguments: what a backend takes is what its constructor has parameters for."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar, cast

from assay.errors import ConfigError, did_you_mean

A = TypeVar("A")
F = TypeVar("F", bound=Callable[..., Any])


def checked_arguments(cls: type, given: Mapping[str, Any], offered: Mapping[str, Any]) -> dict[str, Any]:
    """What to call the class with: the arguments given and, of those offered, what it has parameters for.

    A wrong name or a missing argument is an error.
    """
    called = vars(cls).get("registered_name") or cls.__name__
    parameters = inspect.signature(cls.__init__).parameters  # type: ignore[misc]
    names = [n for n, p in parameters.items() if n != "self" and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        check_arguments(called, given, names)
    taken = {name: value for name, value in offered.items() if value is not None and name in names}
    taken.update(given)
    for name in names:
        if parameters[name].default is inspect.Parameter.empty and name not in taken:
            example = "smollm2-135m" if name == "pretrained" else "…"
            # What a class hands on to others may be anything, so a slip is seen only where something is missing.
            slips = difflib.get_close_matches(name, [each for each in given if each not in names], n=1)
            raise ConfigError(
                f"the model {called} needs {name}, which is missing",
                hint=f"Did you mean {name} where you wrote {slips[0]}?"
                if slips
                else f"Add --model_args {name}={example}",
            )
    return taken


def check_arguments(model: str, given: Mapping[str, Any], known: Sequence[str]) -> None:
    """Raise for the first model argument that is not known."""
    for name in given:
        if name not in known:
            raise ConfigError(
                f"the model {model} has no argument {name!r}",
                hint=did_you_mean(name, known) or f"It takes: {', '.join(known) or 'none'}.",
            )


def with_arguments(arguments: type, *, and_others: bool = False) -> Callable[[F], F]:
    """Shows the fields of a dataclass as arguments of a constructor that takes them as `**given`.

    Whoever reads signatures finds them there: the check of model arguments, and `help`.
    """

    def decorate(constructor: F) -> F:
        signature = inspect.signature(constructor)
        *first, rest = signature.parameters.values()
        named = [
            inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=each.type)
            for each in fields(arguments)
        ]
        shown = signature.replace(parameters=[*first, *named, *([rest] if and_others else [])])
        constructor.__signature__ = shown  # type: ignore[attr-defined]
        return constructor

    return decorate


def split_arguments(arguments: type[A], given: Mapping[str, Any]) -> tuple[A, dict[str, Any]]:
    """Those that are fields of the dataclass, as one of it; and the others."""
    named = {each.name for each in fields(cast(Any, arguments))}
    own = arguments(**{name: value for name, value in given.items() if name in named})
    return own, {name: value for name, value in given.items() if name not in named}
