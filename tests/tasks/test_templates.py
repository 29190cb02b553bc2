"""Templates: rendered as task files expect, and never more than a prompt needs."""

from __future__ import annotations

import pytest

from assay.errors import ConfigError, DataError
from assay.tasks import compile_template


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("plain\n", "plain\n"),
        ("{{a}}", "1"),
        ("{{ none }}", "None"),
        ("{{d.k}}{{d['k']}}", "vv"),
        ("{{a}}\n", "1\n"),
        ("{% if a == 1 %}one{% endif %}", "one"),
        ("{% for x in l %}{{loop.index}}{{x}}{% if not loop.last %},{% endif %}{% endfor %}", "1p,2q"),
        ("{% for x in l %}{{loop.length}}{% endfor %}", "22"),
        ("{{t | regex_replace('[aeiou]', '')}}", "hll"),
        ("{{t | regex_replace('l', 'L', 1)}}", "heLlo"),
        ("{{l | join('-')}}", "p-q"),
        ("{{ '%s' % a }}", "1"),
        ("{{a * 3}}{{'ab' * 2}}{{2 ** 3}}", "3abab8"),
        ("a\r\nb", "a\nb"),
    ],
)
def test_rendering(source: str, text: str) -> None:
    doc = {"a": 1, "none": None, "d": {"k": "v"}, "l": ["p", "q"], "t": "hello"}
    assert compile_template(source).render(doc) == text


def test_a_template_is_compiled_once() -> None:
    assert compile_template("{{a}} once") is compile_template("{{a}} once")


def test_an_undefined_variable_names_template_and_columns() -> None:
    for source in ("Q: {{quetsion}}", "{{quetsion}}", "{{question.text.more}}"):
        with pytest.raises(DataError) as caught:
            compile_template(source).render({"question": "x", "answer": 1})
        assert source in caught.value.message
        assert "question, answer" in str(caught.value.hint)


def test_bad_syntax_is_an_error_of_the_config() -> None:
    with pytest.raises(ConfigError, match="not valid Jinja, line 2"):
        compile_template("first\n{{ open")


@pytest.mark.parametrize(
    "source",
    [
        "{% for i in range(1000000000) %}x{% endfor %}",
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% for i in range(99999) %}{% for j in range(99999) %}{% set k = j %}{% endfor %}{% endfor %}",
        "{{ 'x' * 1000000000 }}",
        "{{ [1] * 1000000000 }}",
        "{{ 9 ** 9999999 }}",
    ],
)
def test_a_template_cannot_run_away(source: str) -> None:
    with pytest.raises(DataError, match="does too much"):
        compile_template(source).render({})


def test_the_loop_budget_is_per_rendering() -> None:
    template = compile_template("{% for i in range(60000) %}{% for j in range(10) %}{% endfor %}{% endfor %}done")
    assert [template.render({}) for _ in range(2)] == ["done", "done"]


@pytest.mark.parametrize("source", ["{{ ''.__class__.__mro__ }}", "{{ q.__init__.__globals__ }}"])
def test_the_sandbox_holds(source: str) -> None:
    with pytest.raises(DataError):
        compile_template(source).render({"q": "x"})


def test_an_error_inside_an_expression_names_the_template() -> None:
    with pytest.raises(DataError, match=r"\{\{ a / 0 \}\}"):
        compile_template("{{ a / 0 }}").render({"a": 1})
