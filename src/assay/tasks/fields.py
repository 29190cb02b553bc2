"""The `doc_to_*` fields of a task file, turned once into functions of a doc.

What a field means depends on what it holds, and for text on what it renders to. All of these rules live here:

| field | int | name of a column | other text | list | mapping | function |
|---|---|---|---|---|---|---|
| text | itself | the value | template; digits are an index if there are choices | – | – | called |
| target | itself | the value, as it is | template; digits are an index if there are choices, `[…]` a list | itself | – | called |
| choice | – | the value | template that gives a list | itself | its values | called |

A column that holds `"3"` stays text, and a template that renders `3` does not: task files depend on it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection
from typing import Any, TypeAlias, cast

from assay.config import FunctionRef
from assay.data import CorrectedDoc
from assay.errors import ConfigError, DataError, did_you_mean
from assay.instance import Doc
from assay.templates import Template, compile_template

Field: TypeAlias = Callable[[Doc], Any]


def text_field(value: Any, columns: Collection[str], *, has_choices: bool) -> Field:
    """`doc_to_text`: the question, or the index of the right context."""
    if isinstance(value, int):
        return lambda doc: value
    if isinstance(value, str):
        if value in columns:
            return _column(value)
        render = compile_template(value).render
        if not has_choices:
            return render

        def text_or_index(doc: Doc) -> str | int:
            text = render(doc)
            return int(text) if text.isdigit() and text.isascii() else text

        return text_or_index
    return _function(value, "doc_to_text")


def target_field(value: Any, columns: Collection[str], *, has_choices: bool, renders_lists: bool = False) -> Field:
    """`doc_to_target`: an answer, several of them, or the index of a choice; of a doc that an overlay corrects, what it says."""
    published = _published_target(value, columns, has_choices=has_choices, renders_lists=renders_lists)

    def target(doc: Doc) -> Any:
        return doc.gold if isinstance(doc, CorrectedDoc) and doc.gold is not None else published(doc)

    return target


def _published_target(value: Any, columns: Collection[str], *, has_choices: bool, renders_lists: bool) -> Field:
    if isinstance(value, list):
        return _listed(value, renders=renders_lists)
    if isinstance(value, int):
        return lambda doc: value
    if isinstance(value, str):
        if value in columns:
            return _column(value)
        render = compile_template(value).render

        def target(doc: Doc) -> Any:
            return read_target(render(doc), has_choices=has_choices)

        return target
    return _function(value, "doc_to_target")


def read_target(text: str, *, has_choices: bool) -> Any:
    """What the text of a rendered target stands for.

    >>> read_target("2", has_choices=True), read_target("2", has_choices=False)
    (2, '2')
    >>> read_target("['a', 'b']", has_choices=False), read_target("[a]", has_choices=False)
    (['a', 'b'], '[a]')
    """
    if has_choices and text.isdigit() and text.isascii():
        return int(text)
    if len(text) >= 2 and text[0] == "[" and text[-1] == "]":
        try:
            return ast.literal_eval(text)
        except (SyntaxError, ValueError):
            return text
    return text


def choice_field(value: Any, columns: Collection[str], *, renders_lists: bool = False) -> Field:
    """`doc_to_choice`: the texts of the choices."""
    if isinstance(value, list | dict):
        return _listed(list(value.values()) if isinstance(value, dict) else value, renders=renders_lists)
    if isinstance(value, str):
        return _column(value) if value in columns else _literal(compile_template(value), "doc_to_choice")
    return _function(value, "doc_to_choice")


def is_template(value: Any) -> bool:
    """Whether text that stands in a list was meant as a template."""
    return isinstance(value, str) and any(sign in value for sign in ("{{", "{%"))


def _listed(values: list[Any], *, renders: bool) -> Field:
    """A list as it is written. lm-evaluation-harness takes its texts as they are, templates too; ours are rendered."""
    if not renders or not any(map(is_template, values)):
        return lambda doc: values
    made = [compile_template(value).render if is_template(value) else None for value in values]
    return lambda doc: [value if render is None else render(doc) for value, render in zip(values, made)]


def only_choice(choices: Field) -> Field:
    """The one continuation of a task that varies its contexts (`multiple_inputs`)."""

    def only(doc: Doc) -> str:
        given = choices(doc)
        if not isinstance(given, list | tuple) or len(given) != 1:
            raise DataError(
                f"doc_to_choice gives {str(given)[:80]}, expected a list of one continuation",
                hint="With multiple_inputs, doc_to_text lists the contexts and doc_to_choice gives what follows each of them.",
            )
        return str(given[0])

    return only


def media_field(value: Any, columns: Collection[str], name: str) -> Field:
    """`doc_to_image`, `doc_to_audio`: a column, a template that gives a list, several of those, or a function."""
    if isinstance(value, list):
        parts = [media_field(part, columns, name) for part in value]
        return lambda doc: [media for part in parts if (media := part(doc)) is not None]
    if isinstance(value, str):
        return _column(value) if value in columns else _literal(compile_template(value), name)
    return _function(value, name)


def prefix_field(value: Any, columns: Collection[str]) -> Field:
    """`gen_prefix`: a column, a template or a function; None without one."""
    if value is None:
        return lambda doc: None
    if not isinstance(value, str):
        return _function(value, "gen_prefix")
    return _column(value) if value in columns else compile_template(value).render


def free_field(value: Any) -> Field:
    """`description`, and the `gen_prefix` of a shot: here the doc itself says whether it has such a column."""
    if not value:
        return lambda doc: None
    if not isinstance(value, str):
        return _function(value, "description")
    render = compile_template(value).render
    return lambda doc: doc[value] if value in doc else render(doc)


def _column(name: str) -> Field:
    def column(doc: Doc) -> Any:
        try:
            return doc[name]
        except KeyError:
            near = did_you_mean(name, map(str, doc))
            hint = f"{near + ' ' if near else ''}Columns: {', '.join(map(str, doc))}."
            raise DataError(f"there is no column {name!r}", hint=hint) from None

    return column


def _literal(template: Template, name: str) -> Field:
    """A template whose text is a Python literal. Where it is one expression, the literal need not be written first."""

    def literal(doc: Doc) -> Any:
        if template.is_expression:
            value = template.value(doc)
            if type(value) is list and all(type(item) is str for item in value):
                return value
            text = str(value)
        else:
            text = template.render(doc)
        try:
            return ast.literal_eval(text)
        except (SyntaxError, ValueError) as error:
            if text.isidentifier() and (near := did_you_mean(text, map(str, doc))) is not None:
                raise DataError(f"{name} is {text!r}, which is neither a column nor a list", hint=near) from error
            raise DataError(
                f"{name} renders to {text[:200]!r}, which is not a list",
                hint="Make it end in a list, such as {{[a, b]}} or {{choices.text}}.",
            ) from error

    return literal


def _function(value: Any, name: str) -> Field:
    if isinstance(value, FunctionRef):
        value = value.load()
    if not callable(value):
        raise ConfigError(f"{name} is {value!r}", hint="Use a column, a template or a !function.")
    return cast(Field, value)
