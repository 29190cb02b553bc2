"""Images as parts of a message: files, bytes, pictures of PIL and local addresses become data URLs."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from assay.errors import ConfigError, DataError
from assay.instance import Message

_KINDS = ((b"\x89PNG", "png"), (b"\xff\xd8", "jpeg"), (b"GIF8", "gif"), (b"RIFF", "webp"))


def with_images(messages: Sequence[Message], parts: Sequence[Mapping[str, Any]]) -> list[Message]:
    """The last turn of the user with the images (`image_part`) before its text."""
    turns = list(messages)
    at = max(i for i, turn in enumerate(turns) if turn.role == "user")
    content = turns[at].content
    text = ({"type": "text", "text": content},) if isinstance(content, str) else content
    turns[at] = replace(turns[at], content=(*parts, *text))
    return turns


def image_part(image: Any, longest: int | None = None) -> dict[str, Any]:
    """
    >>> image_part(b"\\x89PNG")["image_url"]["url"]
    'data:image/png;base64,iVBORw=='
    """
    return {"type": "image_url", "image_url": {"url": data_url(image, longest)}}


def data_url(image: Any, longest: int | None = None) -> str:
    """The image, scaled down where a side has more than `longest` pixels."""
    if isinstance(image, str) and image.startswith("data:"):
        if longest is None:
            return image
        image = base64.b64decode(image.partition(",")[2])
    content = image_bytes(image)
    if longest is not None:
        content = scaled_down(content, longest)
    kind = next((name for mark, name in _KINDS if content.startswith(mark)), None)
    if kind is None:
        raise DataError(f"an image begins with {content[:8]!r}, expected PNG, JPEG, GIF or WebP")
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def scaled_down(content: bytes, longest: int) -> bytes:
    """As it is where it fits; else a PNG of the same shape."""
    if find_spec("PIL") is None:
        raise ConfigError("max_image_side needs the package pillow", hint="pip install pillow")
    from PIL import Image

    with Image.open(io.BytesIO(content)) as picture:
        if max(picture.size) <= longest:
            return content
        smaller = picture.convert("RGBA" if "A" in picture.getbands() else "RGB")
    smaller.thumbnail((longest, longest))
    return image_bytes(smaller)


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
    raise DataError(f"an image is {type(image).__name__}, expected a file, bytes, or a PIL image")


def _file(name: str) -> Path:
    address = urlsplit(name)
    if address.scheme in ("http", "https", "ftp"):
        raise DataError(
            f"the image {name[:80]} is not a local file",
            hint="Put it next to the task file; only local images are sent.",
        )
    path = Path(unquote(address.path)) if address.scheme == "file" else Path(name)
    if not path.is_file():
        raise DataError(f"there is no image {str(path)[:200]}")
    return path
