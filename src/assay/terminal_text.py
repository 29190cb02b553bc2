"""Characters that act or hide instead of being seen, and the visible signs that stand for them, on pages and terminals.

Text of models, docs, servers and task files is hostile: `ESC ] 0 ; …` renames a terminal's window, a direction override turns a line around.
"""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any

INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff]"
    "|[\U000e0000-\U000e007f\U000f0000-\U0010ffff]"
)
"""Not tab and line feed, which text is made of."""

_NAMES = {0x00: "NULL", 0x07: "BELL", 0x08: "BACKSPACE", 0x0D: "CARRIAGE RETURN", 0x1B: "ESCAPE", 0x7F: "DELETE"}


def sign_of(character: str) -> str:
    """
    >>> sign_of("\\x1b"), sign_of("\\u202e")
    ('␛', 'U+202E')
    """
    code = ord(character)
    return chr(0x2400 + code) if code < 0x20 else "␡" if code == 0x7F else f"U+{code:04X}"


def name_of(character: str) -> str:
    return _NAMES.get(ord(character), unicodedata.name(character, "CONTROL CHARACTER"))


def with_signs(text: str) -> str:
    """Text that can be printed anywhere; a lone surrogate, which no encoding takes, is a sign as well.

    >>> with_signs("\\x1b]0;pwned\\x07 \\ud800")
    '␛]0;pwned␇ U+D800'
    """
    return INVISIBLE.sub(lambda match: sign_of(match[0]), text)


def one_line(text: str) -> str:
    """The same for what stands in one line: a name with a line feed in it must not begin a line of its own.

    >>> one_line("a\\nb\\tc")
    'a␊b␉c'
    """
    return with_signs(text).replace("\n", "␊").replace("\t", "␉")


def hanging(text: str) -> str:
    """A message of several lines, of which only the first begins at the margin: no name in it can pass for a message.

    >>> hanging("no task 'a\\nassay: done'\\n  Look again.")
    "no task 'a\\n  assay: done'\\n  Look again."
    """
    return re.sub("\n(?! )", "\n  ", with_signs(text))


def json_with_escapes(text: str) -> str:
    """JSON that says the same and can be printed anywhere: what a terminal would obey is written as its escape.

    >>> json_with_escapes('"\u202e\x9b"')
    '"\\\\u202e\\\\u009b"'
    """
    return INVISIBLE.sub(lambda match: json.dumps(match[0])[1:-1], text)


_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def csv_cell(value: Any) -> Any:
    """A value for a spreadsheet. A text that one would take for a formula gets an apostrophe before it: it may be a model's.

    >>> csv_cell("=HYPERLINK()"), csv_cell("-2+3"), csv_cell("-2"), csv_cell(-1.5), csv_cell(["a"])
    ("'=HYPERLINK()", "'-2+3", '-2', -1.5, '["a"]')
    """
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = text.replace("\x00", "␀")
    acts = text[:1] in ("=", "+", "-", "@", "\t", "\r", "\n") and not _NUMBER.fullmatch(text)
    return f"'{text}" if acts else text


def cell_width(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
