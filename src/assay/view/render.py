"""Templates to pages. Everything is escaped; numbers, dates and sizes are worded in one place."""

from __future__ import annotations

import json
import time
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from assay.report.rows import format_number
from assay.results.version import assay_version
from assay.view.text import markdown, name, show, snippet


@cache
def environment() -> Environment:
    env = Environment(
        loader=PackageLoader("assay.view", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
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
        "signed": lambda value: (
            "" if value is None else f"{'+' if value > 0 else '−' if value < 0 else '±'}{abs(value):.4f}"
        ),
        "p_value": lambda p: "" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}",
    }
    env.globals["assay_version"] = assay_version()
    return env


def render(template: str, **context: Any) -> str:
    return environment().get_template(template).render(**context)


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
    >>> duration(0.42), duration(75), duration(4000), duration(None)
    ('0.4 s', '1 min 15 s', '1 h 6 min', '–')
    """
    if seconds is None:
        return "–"
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
