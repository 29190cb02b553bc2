"""Templates to pages. Everything is escaped; numbers, dates and sizes are worded in one place.

Text of models and docs is hostile: every character is shown, none acts. Control characters become visible signs, direction
overrides and invisible characters are named, and a text too long for a page is cut, with its length.
"""

from __future__ import annotations

import json
import math
import re
import time
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from assay.results import RunResult, assay_version, format_number
from assay.show import Html, Table
from assay.terminal_text import INVISIBLE, name_of, sign_of
from assay.view.findings import Addresses, Links, ViewerHtml
from assay.view.library import RunEntry

LONGEST = 20_000
"""Characters of one text on a page; the rest can be downloaded."""


@cache
def environment() -> Environment:
    env = Environment(
        loader=PackageLoader("assay.view", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    env.filters |= {
        "number": number,
        "percent": percent,
        "count": lambda n: f"{n:,}",
        "when": when,
        "duration": duration,
        "show": show,
        "name": name,
        "snippet": snippet,
        "markdown": markdown,
        "pretty": pretty,
        "data": data_block,
        "whisker": lambda mark: Markup(Html().whisker(mark)),
        "tree": tree,
        "folded_table": folded_table,
        "signed": lambda value: (
            "" if value is None else f"{'+' if value > 0 else '−' if value < 0 else '±'}{abs(value):.4f}"
        ),
        "p_value": lambda p: "" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}",
    }
    env.globals["assay_version"] = assay_version()
    return env


def render(template: str, **context: Any) -> str:
    return environment().get_template(template).render(**context)


def tree(table: Table, links: Links, run: RunEntry, result: RunResult) -> Markup:
    """The scores of a run: groups fold, names lead to their pages."""
    return Markup(ViewerHtml(Addresses(links, {str(result.path or ""): run.id}), tree=True).table(table))


def folded_table(table: Table, links: Links, run: RunEntry, result: RunResult) -> Markup:
    return Markup(ViewerHtml(Addresses(links, {str(result.path or ""): run.id})).folded(table))


def number(value: float | None) -> str:
    return "–" if value is None else format_number(value)


def percent(share: float | None, digits: int = 0) -> str:
    """
    >>> percent(0.004), percent(0.5), percent(0.0)
    ('< 1 %', '50 %', '0 %')
    """
    if share is None:
        return "–"
    if digits == 0 and 0 < share < 0.01:
        return "< 1 %"
    return f"{100 * share:.{digits}f} %"


def when(stamp: float | None) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(stamp)) if stamp else "–"


def duration(seconds: float | None) -> str:
    """
    >>> duration(0.42), duration(0.01), duration(75), duration(4000), duration(None)
    ('0.4 s', '< 0.1 s', '1 min 15 s', '1 h 6 min', '–')
    """
    if seconds is None or not math.isfinite(seconds):
        return "–"
    if 0 < seconds < 0.05:
        return "< 0.1 s"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def pretty(value: Any) -> Markup:
    return show(json.dumps(value, ensure_ascii=False, indent=2, default=str))


def data_block(value: Any) -> Markup:
    """JSON for a `<script type="application/json">`: data, which no browser runs, and which cannot end the element."""
    text = json.dumps(value, ensure_ascii=True, default=str, allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def show(text: Any, longest: int = LONGEST) -> Markup:
    """A text as HTML: escaped, with what cannot be seen made visible.

    >>> show("a\\x1b[31m<b>\\u202e")
    Markup('a<i class="ctl" title="ESCAPE U+001B">␛</i>[31m&lt;b&gt;<i class="ctl" title="RIGHT-TO-LEFT OVERRIDE U+202E">U+202E</i>')
    """
    plain = text if isinstance(text, str) else str(text)
    cut = len(plain) - longest
    if cut > 0:
        plain = plain[:longest]
    elif INVISIBLE.search(plain) is None:
        return escape(plain)
    parts: list[str] = []
    last = 0
    for match in INVISIBLE.finditer(plain):
        parts += [str(escape(plain[last : match.start()])), _sign(match[0])]
        last = match.end()
    parts.append(str(escape(plain[last:])))
    if cut > 0:
        parts.append(f'<span class="cut">… {cut:,} more characters</span>')
    # Every part is escaped or built here from a table.
    return Markup("".join(parts))


def _sign(character: str) -> str:
    title = f"{name_of(character)} U+{ord(character):04X}"
    return f'<i class="ctl" title="{escape(title)}">{sign_of(character)}</i>'


def snippet(text: str, longest: int = 160) -> Markup:
    """The beginning of a text on one line."""
    line = " ".join(text[: longest * 4].split())
    return show(line[:longest] + ("…" if len(line) > longest or len(text) > longest * 4 else ""), longest + 1)


def name(text: str, longest: int = 80) -> Markup:
    """The name of a task, which may break after an underscore."""
    # `show` writes no underscore of its own.
    return Markup(str(show(text, longest)).replace("_", "_<wbr>"))


_INLINE = re.compile(r"`(?P<code>[^`\n]+)`|\*\*(?P<bold>[^*\n]+)\*\*|(?<!\w)\*(?P<italic>[^*\n]+)\*(?!\w)")


def markdown(text: str, longest: int = LONGEST) -> Markup:
    """Headings, lists, emphasis and code of Markdown. Links, images and HTML stay text: nothing here can be followed.

    >>> markdown("# Sum\\n**4** <script>")
    Markup('<h4>Sum</h4><p><b>4</b> &lt;script&gt;</p>')
    """
    blocks: list[Markup] = []
    fenced: list[str] | None = None
    for line in text[:longest].split("\n"):
        if line.lstrip().startswith("```"):
            if fenced is not None:
                blocks.append(Markup("<pre>{}</pre>").format(show("\n".join(fenced))))
            fenced = [] if fenced is None else None
        elif fenced is not None:
            fenced.append(line)
        elif heading := re.match(r"#{1,6}\s+(.*)", line):
            blocks.append(Markup("<h4>{}</h4>").format(_inline(heading[1])))
        elif item := re.match(r"\s*(?:[-*+]|\d+[.)])\s+(.*)", line):
            blocks.append(Markup('<p class="item">{}</p>').format(_inline(item[1])))
        elif line.strip():
            blocks.append(Markup("<p>{}</p>").format(_inline(line)))
    if fenced is not None:
        blocks.append(Markup("<pre>{}</pre>").format(show("\n".join(fenced))))
    return Markup("").join(blocks)


def _inline(line: str) -> Markup:
    parts: list[Markup] = []
    last = 0
    for match in _INLINE.finditer(line):
        parts.append(show(line[last : match.start()]))
        tag = {"code": "code", "bold": "b", "italic": "i"}[str(match.lastgroup)]
        parts.append(Markup(f"<{tag}>{{}}</{tag}>").format(show(match[str(match.lastgroup)])))
        last = match.end()
    return Markup("").join([*parts, show(line[last:])])
