"""Values that are small in memory and endless to walk through: whatever a template does with one ends in time, with a result or an error."""

from __future__ import annotations

import contextlib
import time

import pytest

from assay.errors import AssayError
from assay.templates import compile_template
from assay.templates.render import _environment

SECONDS = 20.0
DOUBLED = {
    "lists": "[x, x]",
    "tuples": "(x, x)",
    "dicts": "{'a': x, 'b': x}",
    "lists in dicts": "{'a': [x, x]}",
    "texts": "x ~ x",
    "text by sum": "(x|string) + (x|string)",
    "numbers": "x * x",
}
START = {"texts": "'ab'", "text by sum": "'ab'", "numbers": "12345678901"}


def made(kind: str, times: int = 40) -> str:
    """A template that makes the value `x` by so many doublings, and `y` like it."""
    start, step = START.get(kind, "['a', 1]"), DOUBLED[kind]
    lines = "{% set ns = namespace(x=" + start + ") %}{% for i in range(" + str(times) + ") %}"
    lines += "{% set ns.x = " + step.replace("x", "ns.x").replace("ns.ns.", "ns.") + " %}{% endfor %}{% set x = ns.x %}"
    return lines


USES = [
    *("{{ x }}", "{{ x == x }}", "{{ [x] == [x] }}", "{{ x != [x] }}", "{{ x < x }}", "{{ 1 in x }}", "{{ x in [x] }}"),
    *("{{ x ~ x }}", "{{ '%s' % x }}", "{{ '%s' % [x] }}", "{{ '%r' % (x,) }}", "{{ {x: 1} }}", "{{ {'a': 1}[x] }}"),
    *("{{ x[1] }}", "{{ x.index(1) }}", "{{ x.count(1) }}", "{{ 'a'.join(x) }}", "{{ '{}'.format(x) }}", "{{ x * 2 }}"),
    *("{{ x + x }}", "{{ x // 3 }}", "{{ x - x }}", "{{ x / 7 }}", "{{ x ** 2 }}", "{{ -x }}", "{{ x and x }}"),
    *("{{ dict(a=x) }}", "{{ cycler(x).next() }}", "{{ joiner(x)() }}", "{{ [x, x] | map('string') | join }}"),
    *("{% if x %}1{% endif %}", "{% for i in range(100000) %}{% if x == x %}1{% endif %}{% endfor %}", "{{ not x }}"),
    *("{{ x.copy() }}", "{{ x.append(x) }}{{ x }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(x) }}", "{{ x[:1] }}"),
    "{% for i in range(1000000) %}{{ x * x }}{% endfor %}",
]
FILTERS = [name for name in _environment.filters if not name.startswith("_")]
TESTS = list(_environment.tests)


def finishes(source: str) -> None:
    began = time.monotonic()
    with contextlib.suppress(AssayError):
        compile_template(source).render({"doc": [1, 2]})
    assert time.monotonic() - began < SECONDS, source


@pytest.mark.parametrize("kind", ["lists", "numbers"])
def test_no_operator_goes_through_it(kind: str) -> None:
    for use in USES:
        finishes(made(kind) + use)


@pytest.mark.wide
@pytest.mark.parametrize("kind", DOUBLED)
def test_no_filter_goes_through_it(kind: str) -> None:
    for name in FILTERS:
        for arguments in ("", "(x)", "('a')", "(2)"):
            finishes(made(kind) + "{{ x | " + name + arguments + " }}")
            finishes(made(kind) + "{{ ['a'] | " + name + arguments + " }}")


@pytest.mark.wide
@pytest.mark.parametrize("kind", DOUBLED)
def test_no_test_goes_through_it(kind: str) -> None:
    for name in TESTS:
        for arguments in ("", "(x)", "([x])"):
            finishes(made(kind) + "{{ x is " + name + arguments + " }}")


def test_values_that_hold_themselves_end() -> None:
    for use in USES:
        finishes("{% set x = ['a'] %}{{ x.append(x) }}" + use)


def test_a_large_field_of_the_doc_is_no_reason_to_refuse_it() -> None:
    doc = {"rows": [{"text": "word " * 200, "n": [1, 2, 3]} for _ in range(2000)]}
    source = (
        "{% for row in rows %}{% if row.n == [1, 2, 3] and 'word' in row.text %}{{ row.text }}{% endif %}{% endfor %}"
    )
    assert len(compile_template(source).render(doc)) == 2000 * 1000
    assert (
        len(
            compile_template(
                "{% set x = namespace(l=[]) %}{% for row in rows %}{% set _ = x.l.append(row.n) %}{% endfor %}{{ x.l }}"
            ).render(doc)
        )
        > 10000
    )
