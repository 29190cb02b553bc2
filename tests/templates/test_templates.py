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
        "{{ 'a'.ljust(300000000) }}",
        "{{ 'a'.rjust(300000000, 'b') }}",
        "{{ 'a'.center(300000000) }}",
        "{{ '1'.zfill(300000000) }}",
        "{{ '\t\t'.expandtabs(150000000) }}",
        "{{ '\t'.expandtabs(tabsize=300000000) }}",
        "{{ (1).to_bytes(300000000, 'big') }}",
        "{{ b.ljust(300000000) }}",
        "{% set pad = 'a'.ljust %}{{ pad(300000000) }}",
        "{{ '%0300000000d' % 1 }}",
        "{{ '%.300000000f' % 1 }}",
        "{{ '%(x)9000000d%(x)9000000d' % {'x': 1} }}",
        "{{ '%*d' % (300000000, 1) }}",
        "{{ '%300000000s' | format('a') }}",
        "{{ '{:300000000}'.format(1) }}",
        "{{ '{:.300000000f}'.format(1.5) }}",
        "{{ '{:{w}}'.format(1, w=300000000) }}",
        "{{ '{a:{w}}'.format_map({'a': 1, 'w': 300000000}) }}",
        "{{ 'a' | center(300000000) }}",
        "{{ 'a\nb' | indent(300000000) }}",
        "{{ [1] | batch(300000000, 0) | list }}",
        "{{ [1] | slice(300000000) | list | length }}",
        "{{ 1.5 | round(300000000, 'ceil') }}",
    ],
)
def test_a_template_cannot_run_away(source: str) -> None:
    with pytest.raises(DataError, match="does too much"):
        compile_template(source).render({"b": b"x"})


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ 'a'.ljust(3) }}|{{ 'a'.rjust(3, '.') }}|{{ 'a'.center(3) }}|{{ '1'.zfill(3) }}", "a  |..a| a |001"),
        ("{{ '\ta'.expandtabs(2) }}", "  a"),
        ("{{ '%03d %5.2f %s%%' % (7, 1.5, 300000000) }}", "007  1.50 300000000%"),
        ("{{ '%s' | format(300000000) }}", "300000000"),
        ("{{ '{:>4}|{:.1f}|{}'.format(1, 2.25, 300000000) }}", "   1|2.2|300000000"),
        ("{{ '{:{w}}'.format('a', w=3) }}|", "a  |"),
        ("{{ 300000000 | round(1) }} {{ 300000000 % 7 }} {{ 300000000 | center(11) }}", "300000000 6  300000000 "),
        ("{{ 'a\nb' | indent(2) }}", "a\n  b"),
        ("{{ [1, 2, 3] | batch(2, 0) | list }}{{ [1, 2] | slice(2) | list }}", "[[1, 2], [3, 0]][[1], [2]]"),
        ("{{ '300000000 of 100%' }}{{ o.center(300000000) }}", "300000000 of 100%own"),
    ],
)
def test_padding_and_formats_within_reason(source: str, text: str) -> None:
    class Own:
        def center(self, width: int) -> str:
            return "own"

    assert compile_template(source).render({"o": Own()}) == text


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
