"""Jinja templates, compiled once and run in the sandbox; and the labels of choices, which templates and tasks share.

A template that loops without end must not take the run with it: every loop draws from one budget per rendering, and the
sandbox bounds ranges and whatever else makes much of little.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError, UndefinedError, nodes
from jinja2.exceptions import SecurityError
from jinja2.runtime import Context

from assay.errors import ConfigError, DataError, did_you_mean
from assay.instance import Doc
from assay.templates.sandbox import Counting, LimitedEnvironment, TemplateLimit, begin_rendering, join_at_once, spend
from assay.timelimit import MatchTimeout, TimedPattern


def get_n_letters(n: int) -> list[str]:
    """Labels of `n` choices: A to Z, then AA, AB, … so that none is cut off.

    >>> get_n_letters(3), get_n_letters(28)[25:]
    (['A', 'B', 'C'], ['Z', 'AA', 'AB'])
    """
    return [_label(position) for position in range(n)]


def _label(position: int) -> str:
    label = ""
    position += 1
    while position:
        position, letter = divmod(position - 1, 26)
        label = chr(ord("A") + letter) + label
    return label


def answer_key_to_index(key: str | int, labels: Sequence[str] | None = None) -> int:
    """The position of an answer key: among the labels if given, else letters count from A and numbers from 1.

    >>> [answer_key_to_index(key) for key in ("A", "c", "1", "4", "AA")], answer_key_to_index("1", ["0", "1"])
    ([0, 2, 0, 3, 26], 1)
    """
    text = str(key).strip()
    if labels is not None:
        if text not in labels:
            raise DataError(f"the answer key is {key!r}, expected one of {', '.join(map(str, labels))}")
        return list(labels).index(text)
    if text.isascii() and text.isdigit() and int(text) > 0:
        return int(text) - 1
    if not (text.isascii() and text.isalpha()):
        raise DataError(f"the answer key is {key!r}, expected a letter or a number from 1 up")
    position = 0
    for letter in text.upper():
        position = position * 26 + ord(letter) - ord("A") + 1
    return position - 1


def letter_choices(choices: Sequence[str], sep: str = "\n", style: str = ". ") -> str:
    """Choices with their labels: a filter of templates.

    >>> letter_choices(["yes", "no"], sep=" ", style=") ")
    'A) yes B) no'
    """
    return sep.join(f"{label}{style}{choice}" for label, choice in zip(get_n_letters(len(choices)), choices))


MAX_LOOPS = 1_000_000
_LOOP = 20
"""What a turn of a loop costs of the sandbox's budget of work, so that `MAX_LOOPS` turns use it up."""
_FIELDS_ONLY = (nodes.Output, nodes.TemplateData, nodes.Name, nodes.Getattr, nodes.Getitem, nodes.Const)
"""What a template is made of that only fills in fields: no calls, filters, operators or loops, whose work is counted."""


def _regex_replace(text: str, pattern: str, replacement: str, count: int = 0) -> str:
    return _timed(pattern).sub(replacement, text, count)


@lru_cache(maxsize=1024)
def _timed(pattern: str) -> TimedPattern:
    return TimedPattern(pattern, raises=True)


def _counted(items: Iterable[Any]) -> Iterator[Any]:
    for item in items:
        spend(_LOOP)
        yield item


_environment = LimitedEnvironment()
_environment.add_filter("regex_replace", _regex_replace)
_environment.add_filter("letter_choices", letter_choices)
_environment.add_filter("answer_key_to_index", answer_key_to_index)
_environment.filters["_counted"] = _counted


_GLOBALS = dict(_environment.globals)


class _DocContext(Context):
    """The variables of one rendering. Jinja's own way to one takes longer than most templates."""

    environment = _environment
    eval_ctx = nodes.EvalContext(_environment)
    name = None

    def __init__(self, doc: Doc) -> None:
        self.parent = {**_GLOBALS, **doc}
        self.vars = {}
        self.exported_vars = set()
        self.globals_keys = set()
        self.blocks = {}


def _parsed(source: str) -> nodes.Template:
    try:
        tree: nodes.Template = _environment.parse(source)
    except RecursionError as error:
        raise ConfigError(f"the template {_short(source)} is nested too deeply", hint="Use a !function.") from error
    except TemplateSyntaxError as error:
        raise ConfigError(
            f"the template {_short(source)} is not valid Jinja, line {error.lineno}: {error.message}"
        ) from error
    return tree


class Template:
    """One compiled template. `render` gives its text; `value` the object of a template that is one expression."""

    def __init__(self, source: str) -> None:
        self.source = source
        tree = _parsed(source)
        self._fills_in = all(isinstance(node, _FIELDS_ONLY) for node in tree.find_all(nodes.Node))
        if not self._fills_in:
            tree = Counting().visit(tree)
        for loop in list(tree.find_all(nodes.For)):
            loop.iter = nodes.Filter(loop.iter, "_counted", [], [], None, None, lineno=loop.lineno)
        outputs = [part for node in tree.body if isinstance(node, nodes.Output) for part in node.nodes]
        is_plain = all(isinstance(node, nodes.Output) for node in tree.body)
        self.constant: str | None = None
        if is_plain and all(isinstance(part, nodes.TemplateData) for part in outputs):
            self.constant = "".join(part.data for part in outputs if isinstance(part, nodes.TemplateData))
        self.is_expression = (
            is_plain and len(outputs) == 1 and isinstance(outputs[0], nodes.Expr) and self.constant is None
        )
        if self.is_expression:
            result = nodes.Name("result", "store", lineno=1)
            tree = nodes.Template([nodes.Assign(result, outputs[0], lineno=1)], lineno=1)
        try:
            self._run: Callable[[Any], Iterator[str]] = _environment.from_string(tree).root_render_func
        except (RecursionError, MemoryError, SyntaxError) as error:
            raise ConfigError(f"the template {_short(source)} is nested too deeply", hint="Use a !function.") from error

    def render(self, doc: Doc) -> str:
        if self.constant is not None:
            return self.constant
        if self.is_expression:
            return str(self.value(doc))
        try:
            if self._fills_in:
                return join_at_once(self._run(_DocContext(doc)))
            begin_rendering()
            return _environment.concat(self._run(_DocContext(doc)))
        except Exception as error:  # what is called in a template may raise anything
            raise self._explain(error, doc) from error

    def value(self, doc: Doc) -> Any:
        """What the one expression of the template gives, before it becomes text."""
        begin_rendering()
        context = _DocContext(doc)
        try:
            for _ in self._run(context):
                pass
            value = context.vars["result"]
            if isinstance(value, StrictUndefined):
                str(value)  # raises, with the name that is missing
        except Exception as error:  # what is called in a template may raise anything
            raise self._explain(error, doc) from error
        return value

    def _explain(self, error: Exception, doc: Doc) -> Exception:
        what = f"the template {_short(self.source)}"
        if isinstance(error, UndefinedError):
            columns = [str(name) for name in doc]
            missing = re.match("'(.*?)' is undefined", error.message or "")
            near = None if missing is None else did_you_mean(missing[1], columns)
            return DataError(
                f"{what} needs something that the doc does not have: {error.message}",
                hint=f"{near + ' ' if near else ''}Columns: {', '.join(columns)}.",
            )
        if isinstance(error, TemplateLimit | MatchTimeout | OverflowError | RecursionError | MemoryError):
            return DataError(
                f"{what} does too much: {error}", hint="Shorten the loop, or prepare the docs in process_docs."
            )
        if isinstance(error, SecurityError):
            return DataError(
                f"{what} does something that templates may not do: {error}", hint="Use a !function instead."
            )
        if isinstance(error, TemplateError):
            return DataError(f"{what} fails: {error}")
        return DataError(f"{what} fails: {type(error).__name__}: {error}", hint=f"Columns: {', '.join(map(str, doc))}.")


def _short(source: str, most: int = 120) -> str:
    return repr(source if len(source) <= most else source[:most] + "…")


@lru_cache(maxsize=8192)
def compile_template(source: str) -> Template:
    """The compiled template; tasks that share it share the compilation."""
    return Template(source)
