"""Images as parts of a message: files, bytes, pictures of PIL and local addresses become data URLs."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from assay.errors import DataError
from assay.instance import Message

_KINDS = ((b"\x89PNG", "png"), (b"\xff\xd8", "jpeg"), (b"GIF8", "gif"), (b"RIFF", "webp"))


def with_images(messages: Sequence[Message], images: Sequence[Any]) -> list[Message]:
    """The last turn of the user with the images before its text."""
    turns = list(messages)
    at = max(i for i, turn in enumerate(turns) if turn.role == "user")
    content = turns[at].content
    text = ({"type": "text", "text": content},) if isinstance(content, str) else content
    turns[at] = replace(turns[at], content=(*map(image_part, images), *text))
    return turns


def image_part(image: Any) -> dict[str, Any]:
    """
    >>> image_part(b"\\x89PNG")["image_url"]["url"]
    'data:image/png;base64,iVBORw=='
    """
    return {"type": "image_url", "image_url": {"url": data_url(image)}}


def data_url(image: Any) -> str:
    if isinstance(image, str) and image.startswith("data:"):
        return image
    content = image_bytes(image)
    kind = next((name for mark, name in _KINDS if content.startswith(mark)), None)
    if kind is None:
        raise DataError(f"an image begins with {content[:8]!r}, expected PNG, JPEG, GIF or WebP")
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def image_bytes(image: Any) -> bytes:
    """The encoded file. `{"bytes": …, "path": …}` is how the datasets package writes an image that is not decoded."""
    if isinstance(image, bytes | bytearray):
        return bytes(image)
    if isinstance(image, Mapping):
        return image_bytes(image.get("bytes") or image.get("path"))
    if hasattr(image, "save"):  # PIL
        buffer = io.BytesIO()
        (image if image.mode in ("RGB", "RGBA", "L") else image.convert("RGB")).save(buffer, format="PNG")
        return buffer.getvalue()
    if isinstance(image, str | Path):
        return _file(str(image)).read_bytes()
    raise DataError(f"an image is {type(image).__name__}, expected a file, bytes, or a picture of PIL")


def _file(name: str) -> Path:
    address = urlsplit(name)
    if address.scheme in ("http", "https", "ftp"):
        raise DataError(
            f"the image {name[:80]} is somewhere else", hint="Put it beside the task: only local images are sent."
        )
    path = Path(unquote(address.path)) if address.scheme == "file" else Path(name)
    if not path.is_file():
        raise DataError(f"there is no image {str(path)[:200]}")
    return path
