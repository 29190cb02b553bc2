"""Flags made of options: a field of an options class is a flag, with its description as help and its bounds as the flag's."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin

import annotated_types
import click
from pydantic.fields import FieldInfo

from assay.cli.output import echo
from assay.config import CIConfig, CommandFlag, Options, flag_of
from assay.errors import ConfigError, did_you_mean

F = TypeVar("F", bound=Callable[..., Any])


class WholeText(click.types.StringParamType):
    """Text that may be given many times as a flag and once in the environment, where click would split it at spaces."""

    def split_envvar_value(self, rv: str) -> Sequence[str]:
        return [rv]


class FieldOption(click.Option):
    """A flag that knows the heading of `--help` under which it stands."""

    def __init__(self, *words: Any, section: str = "", **settings: Any) -> None:
        super().__init__(*words, **settings)
        self.section = section


def option_flags(owner: type[Options], *, verb: str, without: Iterable[str] = ()) -> Callable[[F], F]:
    """Adds the flags of an options class, and hands over `options`, made of what was typed and of `assay.yaml`."""
    names = [
        name
        for name in owner.model_fields
        if name not in set(without) and not flag_of(owner.model_fields[name]).is_hidden
    ]

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def call(*args: Any, **given: Any) -> Any:
            typed = {name: value for name in names if (value := given.pop(name)) is not None and value != ()}
            return function(*args, options=owner(**{**_from_file(verb, owner, typed), **typed}), **given)

        made: Any = call
        for name in reversed(names):
            made = field_flag(name, owner.model_fields[name])(made)
        return cast(F, made)

    return decorate


FILE = Path("assay.yaml")


def _from_file(verb: str, owner: type[Options], typed: Mapping[str, Any]) -> dict[str, Any]:
    """What the section of this verb in `assay.yaml` says, if there is one; it is said that it was used."""
    if not FILE.is_file():
        return {}
    import yaml

    try:
        content = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{FILE} cannot be read: {error}") from error
    section = content.get(verb) if isinstance(content, Mapping) else None
    if section is None or (verb in CIConfig.model_fields and not isinstance(section, Mapping)):
        return {}
    if not isinstance(section, Mapping):
        raise ConfigError(f"{FILE}: {verb} is not a mapping of options", hint=f"Write `{verb}: {{KEY: VALUE}}`.")
    for key in section:
        if key not in owner.model_fields:
            raise ConfigError(f"{FILE}: {verb}: unknown key {key!r}", hint=did_you_mean(str(key), owner.model_fields))
    used = {str(key): value for key, value in section.items() if key not in typed}
    if used:
        said = ", ".join(f"{key} {value}" for key, value in used.items())
        echo(f"note: from {FILE}: {said}", err=True)
    return used


def field_flag(name: str, field: FieldInfo, *, envvar: str | None = None) -> Callable[[Any], Any]:
    """The click option of one field. Its absence is None, so that a file or the field's default can fill it."""
    flag = flag_of(field)
    kind = _kind(field, flag)
    words = [f"--{flag.name or name}", *([flag.letter] if flag.letter else []), name]
    help_text = (field.description or "") + _default(field, flag)
    about = {"envvar": envvar, "metavar": flag.metavar or None}
    return click.option(*words, cls=FieldOption, section=flag.section, default=None, help=help_text, **about, **kind)


def _kind(field: FieldInfo, flag: CommandFlag) -> dict[str, Any]:
    """What click must know of the type."""
    taken = [each for each in _alternatives(field.annotation) if each is not type(None)]
    if flag.bare is not None:
        bounded = _bounded(taken[0], field.metadata) if taken[0] in (int, float) else None
        return {"is_flag": False, "flag_value": flag.bare, "type": bounded}
    if taken == [bool]:
        return {"is_flag": True, "flag_value": True, "type": bool}
    if get_origin(taken[0]) is Literal:
        return {"type": click.Choice([str(value) for value in get_args(taken[0])])}
    if get_origin(taken[0]) in (tuple, list, dict) and type(None) not in _alternatives(field.annotation):
        return {"multiple": True, "type": WholeText()}
    if set(taken) <= {int, float}:
        return {"type": _bounded(float if float in taken else int, field.metadata)}
    return {}


def _alternatives(annotation: Any) -> list[Any]:
    if get_origin(annotation) in (Union, types.UnionType):
        return [part for each in get_args(annotation) for part in _alternatives(each)]
    return [annotation]


def _bounded(kind: type, metadata: Iterable[Any]) -> Any:
    limits: dict[str, Any] = {}
    for each in metadata:
        match each:
            case annotated_types.Ge(ge=value):
                limits |= {"min": value}
            case annotated_types.Gt(gt=value):
                limits |= {"min": value, "min_open": True}
            case annotated_types.Le(le=value):
                limits |= {"max": value}
            case annotated_types.Lt(lt=value):
                limits |= {"max": value, "max_open": True}
    if kind is int:
        return click.IntRange(**limits) if limits else click.INT
    return click.FloatRange(**limits) if limits else click.FLOAT


def _default(field: FieldInfo, flag: CommandFlag) -> str:
    if field.is_required():
        return "  [required]"
    value = flag.default or field.get_default(call_default_factory=True)
    if value is None or value is False or value in ((), [], {}, ""):
        return ""
    return f"  [{'N: ' if flag.bare is not None else 'default: '}{value}]"
