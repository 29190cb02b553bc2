"""Templates: rendered as task files expect, and never more than a prompt needs."""

from __future__ import annotations

from pathlib import Path

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
        ("{{ '300000000 of 100%' }}", "300000000 of 100%"),
    ],
)
def test_padding_and_formats_within_reason(source: str, text: str) -> None:
    assert compile_template(source).render({}) == text


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


class Picture:
    """Like an image column: harmless to show, dangerous to call."""

    def __init__(self) -> None:
        self.saved: list[str] = []
        self.size = (1, 2)

    def save(self, path: str, **settings: str) -> str:
        self.saved.append(path)
        return ""

    def __str__(self) -> str:
        return "a picture"


@pytest.mark.parametrize(
    "source",
    [
        "{{ image.save('/any/path', format='PPM') }}",
        "{{ image['save']('/any/path') }}",
        "{{ (image | attr('save'))('/any/path') }}",
        "{{ ([image] | map(attribute='save') | first)('/any/path') }}",
        "{% for i in [image] %}{{ i.save('/any/path') }}{% endfor %}",
        "{% set f = image.save %}{{ f('/any/path') }}",
        "{{ [image] | map('attr', 'save') | first | string }}{{ image.save('x') }}",
        "{{ image.size }}",
        "{{ function('/any/path') }}",
        "{{ columns.image.save('/any/path') }}",
    ],
)
def test_only_plain_values_have_methods_in_a_template(source: str) -> None:
    picture = Picture()
    with pytest.raises(DataError):
        compile_template(source).render({"image": picture, "columns": {"image": picture}, "function": picture.save})
    assert picture.saved == []


def test_an_image_column_can_be_named_and_tested_but_writes_no_file(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image").new("RGB", (2, 2))
    target = tmp_path / "evil.pth"
    with pytest.raises(DataError, match="may not"):
        compile_template("{{ image.save(path, format='PPM') }}").render({"image": image, "path": str(target)})
    assert not target.exists()
    assert compile_template("{% if image %}yes{% endif %}").render({"image": image}) == "yes"


_DOUBLE = "{% set ns = namespace(x='aaaaaaaaaa') %}{% for i in range(40) %}{% set ns.x = STEP %}{% endfor %}"


@pytest.mark.parametrize(
    "source",
    [
        _DOUBLE.replace("STEP", "ns.x ~ ns.x"),
        _DOUBLE.replace("STEP", "ns.x + ns.x"),
        _DOUBLE.replace("STEP", "ns.x | replace('a', 'aaaaaaaa')"),
        _DOUBLE.replace("STEP", "ns.x.replace('a', 'aaaaaaaa')"),
        _DOUBLE.replace("STEP", "[ns.x, ns.x] | join"),
        _DOUBLE.replace("STEP", "ns.x.join([ns.x, ns.x])"),
        _DOUBLE.replace("STEP", "ns.x.join('abcdefgh')"),
        _DOUBLE.replace("STEP", "(ns.x | list + ns.x | list) | join"),
        "{% set l = [0] %}{% for i in range(60) %}{% set _ = l.extend(l) %}{% endfor %}",
        "{% set l = [0] %}{% for i in range(60) %}{% set l2 = l.extend(l[:]) %}{% endfor %}",
        "{% set ns = namespace(x='a') %}{% for i in range(30) %}{% set ns.x %}{{ ns.x }}{{ ns.x }}{{ ns.x }}{% endset %}{% endfor %}",
        "{% set ns = namespace(x=9) %}{% for i in range(60) %}{% set ns.x = ns.x * ns.x %}{% endfor %}",
        "{% set ns = namespace(x=9) %}{% for i in range(60) %}{% set ns.x = ns.x ** 900 %}{% endfor %}",
        "{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}",
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}x{% endmacro %}{{ f(60) }}",
        "{{ lipsum(n=10**8) }}",
        "{{ lipsum(100000000) }}",
        "{% set x = 'a' * 9000000 %}{{ x }}{{ x }}{{ x }}{{ x }}{{ x }}{{ x }}",
        "{% set x = 'a' * 9000000 %}{% set l = [] %}{% for i in range(99) %}{% set _ = l.append(x ~ i) %}{% endfor %}",
        "{% set x = ('a' * 9000000) | list %}{{ [x[:], x[1:], x[2:], x[3:], x[4:], x[5:]] | length }}",
        "{% set x = 'a\n' * 4000000 %}{{ x | indent(9999) }}",
        "{{ ('a' * 9000000) | center(9999999) | upper | lower | title | trim | reverse | upper | lower | upper }}",
    ],
)
def test_a_rendering_as_a_whole_is_bounded(source: str) -> None:
    with pytest.raises(DataError, match="does too much"):
        compile_template(source).render({})


def test_a_template_that_is_nested_too_deeply_is_an_error_of_the_file() -> None:
    with pytest.raises(ConfigError, match="nested too deeply"):
        compile_template("{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}")
    with pytest.raises(ConfigError, match=r"nested too deeply|not valid"):
        compile_template("{% if a %}" * 3000 + "{% endif %}" * 3000)
