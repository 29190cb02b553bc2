"""Options declared once: a field's name is its flag, its Python keyword and its key in a file; its description is the help text."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import BeforeValidator, Field, ValidationError
from pydantic.fields import FieldInfo

from assay.config.task import FrozenConfig
from assay.errors import ConfigError, did_you_mean


@dataclass(frozen=True)
class CommandFlag:
    """What the command line needs to know of a field beyond its type, bounds and description."""

    letter: str = ""
    """A short form, such as -t."""
    metavar: str = ""
    bare: Any = None
    """What the flag means without a value; None: it needs one."""
    default: str = ""
    """The default in words, where its value would not say it."""
    name: str = ""
    """What the flag is called where it is not called after the field: `--role` fills `roles`."""
    section: str = ""
    """The heading of `--help` under which it stands; those without one stand first."""
    decides: bool = False
    """Whether what is sent, or how it is scored, depends on it: then it is part of the command that makes a run again."""
    is_hidden: bool = False
    """Whether only files and Python know it."""


def option(default: Any, help: str, *, flag: CommandFlag | None = None, **bounds: Any) -> Any:
    """A field: its default, what it does, and the values it may have (`ge`, `gt`, `le`, `lt`)."""
    made = {"default_factory": default} if callable(default) else {"default": default}
    return Field(**made, description=help, json_schema_extra={"flag": flag or CommandFlag()}, **bounds)  # type: ignore[dict-item]


def flag_of(field: FieldInfo) -> CommandFlag:
    extra = field.json_schema_extra
    flag = extra.get("flag") if isinstance(extra, Mapping) else None
    return flag if isinstance(flag, CommandFlag) else CommandFlag(is_hidden=True)


_COMMA = re.compile(r"(?<!\\),")


def names_in(values: Any) -> tuple[str, ...]:
    r"""The names of an option that may be repeated and may hold several. A comma that is part of a name has a backslash
    before it, which stays: whoever looks the name up takes it away, and what was stored is read the same way.

    >>> names_in(["arc_easy,gsm8k", "mmlu"]), names_in("acc,none"), names_in(None)
    (('arc_easy', 'gsm8k', 'mmlu'), ('acc', 'none'), ())
    >>> names_in(r"red\, green,blue")
    ('red\\, green', 'blue')
    """
    listed: Iterable[Any] = () if values is None else [values] if isinstance(values, str) else values
    return tuple(name for value in listed for name in _COMMA.split(str(value)) if name)


def as_one_name(name: str) -> str:
    r"""A name as it is written among others: with a backslash before commas and spaces that are part of it.

    >>> print(as_one_name("my tasks/a,b.yaml"))
    my\ tasks/a\,b.yaml
    """
    return re.sub(r"(?<!\\)([,\s])", r"\\\1", name)


def task_names_in(values: Any, between: str = r",\s") -> list[str]:
    r"""Names of tasks: a list, or text with commas or spaces between names. One that is part of a name has a backslash before
    it, unless the text begins with the file or directory of that name.

    >>> task_names_in("arc_easy, gsm8k:5shot mmlu"), task_names_in([r"red\,\ green,blue"])
    (['arc_easy', 'gsm8k:5shot', 'mmlu'], ['red\\,\\ green', 'blue'])
    """
    listed: Iterable[Any] = () if values is None else values if isinstance(values, list | tuple) else [values]
    return [name for value in listed for name in re.split(rf"(?<!\\)[{between}]+", _with_one_place(str(value))) if name]


def _with_one_place(text: str) -> str:
    """The text with the name of the file or directory that it begins with written as one name."""
    given, *rest = re.split("(?=[:@])", text, maxsplit=1)
    path = re.sub(r"\\([,\s])", r"\1", given)
    is_place = re.search(r"[,\s]", path) is not None and os.path.exists(os.path.expanduser(path))
    return "".join((as_one_name(path), *rest)) if is_place else text


def texts_in(values: Any) -> tuple[str, ...]:
    """The texts of an option that may be repeated; a comma is part of a text."""
    return () if values is None else (str(values),) if isinstance(values, str | Path) else tuple(map(str, values))


def numbers_in(values: Any) -> tuple[int, ...]:
    """Whole numbers of an option that may be repeated and may hold several.

    >>> numbers_in("1,8"), numbers_in((1, "8,32"))
    ((1, 8), (1, 8, 32))
    """
    parts = names_in([values] if isinstance(values, int) else values)
    wrong = [part for part in parts if not part.strip().isdigit()]
    if wrong:
        raise ConfigError(f"{wrong[0]!r} is not a whole number", hint="Write 1,8,32, for example.")
    return tuple(map(int, parts))


Names = Annotated[tuple[str, ...], BeforeValidator(names_in)]
Texts = Annotated[tuple[str, ...], BeforeValidator(texts_in)]
WholeNumbers = Annotated[tuple[int, ...], BeforeValidator(numbers_in)]


class Options(FrozenConfig):
    """How an analysis is done. Every way to say so, a flag, a keyword or a file, makes one of these."""

    if not TYPE_CHECKING:  # type checkers and editors know the fields

        def __init__(self, **fields: Any) -> None:
            try:
                super().__init__(**fields)
            except ValidationError as error:
                raise as_config_error(error, type(self)) from error

    @classmethod
    def made(cls, options: Self | None, fields: Mapping[str, Any]) -> Self:
        """Options that were given whole, or as keywords, or both: a keyword wins."""
        if options is None:
            return cls(**fields)
        return cls(**{**dict(options), **fields}) if fields else options


def as_config_error(error: ValidationError, owner: type[FrozenConfig], hint: str = "") -> ConfigError:
    """The error of the first field that is wrong; pydantic wraps those that the validators raise."""
    first = error.errors(include_url=False)[0]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, ConfigError):
        name = str(first["loc"][0]) if first["loc"] else ""
        return cause if not name or name in cause.message else cause.reworded(f"--{name}: {cause.message}")
    # A field that takes several types says which of them was tried: `limit.int`.
    where = ".".join(str(part) for part in first["loc"] if part not in ("int", "float", "bool", "str")) or "config"
    if first["type"] == "missing":
        return ConfigError(f"--{where} is missing", hint=owner.model_fields[where].description)
    if first["type"] == "extra_forbidden" and len(first["loc"]) == 1:
        known = did_you_mean(where, owner.model_fields) or f"There are: {', '.join(owner.model_fields)}."
        return ConfigError(f"there is no argument {where!r} (got {first.get('input')!r})", hint=known)
    said = hint or f"It is: {owner.model_fields[where].description}" if where in owner.model_fields else hint
    return ConfigError(f"{where}: {first['msg']} (got {first.get('input')!r})", hint=said or None)
