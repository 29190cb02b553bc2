"""A forest plot: a dot and a whisker for each number, as SVG without script."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path

from assay.errors import ConfigError, install_hint
from assay.results import format_number, write_whole
from assay.show.axes import Axis, Whisker
from assay.show.palette import INK, SOFT
from assay.terminal_text import one_line

__all__ = ["ForestPlot"]


def shown(text: object) -> str:
    """Text of anybody, as text."""
    return escape(one_line(str(text)))


@dataclass(frozen=True, repr=False)
class ForestPlot:
    """Lines with one axis for all. A notebook draws it; `save` writes a file."""

    title: str
    lines: tuple[Whisker, ...]
    axis: Axis
    zero: float | None = None
    """Where a line is drawn, such as no difference."""

    @property
    def svg(self) -> str:
        names = 8 * max((len(line.label) for line in self.lines), default=0) + 20
        texts = 8 * max((len(line.text) for line in self.lines), default=0)
        wide, left, height = names + texts + 370, names, 30 * len(self.lines) + 62

        def x(value: float) -> str:
            return f"{left + 3.4 * (self.axis.percent(value) or 0.0):.1f}"

        parts = [f'<text x="0" y="18" font-weight="600">{shown(self.title)}</text>']
        if self.zero is not None:
            parts.append(f'<line x1="{x(self.zero)}" x2="{x(self.zero)}" y1="30" y2="{height - 26}" stroke="{SOFT}"/>')
        for at, line in enumerate(self.lines):
            y = 46 + 30 * at
            weight = ' font-weight="600"' if line.is_bold else ""
            name = line.label.lstrip(" ")  # SVG collapses spaces
            indent = 4 * (len(line.label) - len(name))
            parts.append(f'<text x="{indent}" y="{y + 4}"{weight}>{shown(name)}</text>')
            if line.low is not None and line.high is not None:
                ends = f'x1="{x(line.low)}" x2="{x(line.high)}"'
                parts.append(f'<line {ends} y1="{y}" y2="{y}" stroke="{INK}" stroke-width="3"/>')
            parts.append(f'<circle cx="{x(line.value or 0.0)}" cy="{y}" r="5" fill="{INK}"/>')
            parts.append(f'<text x="{left + 360}" y="{y + 4}" fill-opacity=".75">{shown(line.text)}</text>')
        for value, anchor in ((self.axis.low, "start"), (self.axis.high, "end")):
            place = f'x="{x(value)}" y="{height - 8}" text-anchor="{anchor}"'
            parts.append(f'<text {place} fill-opacity=".65">{format_number(value)}</text>')
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{height}" viewBox="0 0 {wide} {height}" '
            f'font-family="sans-serif" font-size="13" fill="currentColor">{"".join(parts)}</svg>'
        )

    def _repr_html_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"ForestPlot({self.title!r}, {len(self.lines)} lines)"

    def save(self, path: str | Path) -> Path:
        """Write it as an SVG or PNG file, as the ending says."""
        place = Path(path)
        drawn = self.svg.replace("currentColor", "#1c2221")
        match place.suffix.lower():
            case ".svg":
                write_whole(place, drawn.encode())
            case ".png":
                write_whole(place, _as_png(drawn))
            case other:
                raise ConfigError(
                    f"a plot is drawn as SVG or PNG, not as {other or 'a file without an ending'}",
                    hint=f"Save it as {place.with_suffix('.svg').name} or {place.with_suffix('.png').name}.",
                )
        return place


def _as_png(svg: str) -> bytes:
    try:
        import resvg_py
    except ImportError as error:
        raise ConfigError("a PNG needs the package resvg-py", hint=install_hint("view")) from error
    return bytes(resvg_py.svg_to_bytes(svg_string=svg, zoom=2, background="white"))
