"""Templates of this folder's pages: everything is escaped, and all know how numbers and strange text are shown."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from assay.palette import palette_css
from assay.report import format_number
from assay.signs import with_signs

if TYPE_CHECKING:
    from jinja2 import Template


@cache
def page_template(name: str, **filters: Callable[..., Any]) -> Template:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("assay.comparison", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["palette"] = palette_css()
    environment.filters |= {"number": format_number, "signs": with_signs, **filters}
    return environment.get_template(name)
