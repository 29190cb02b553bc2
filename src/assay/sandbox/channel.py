"""Messages between the tests and the program: JSON, each with its length before it.

Run in an interpreter that knows nothing of assay: the standard library only.
"""

from __future__ import annotations

import json
import os
import struct
from typing import Any, NoReturn

MOST = 64 << 20
"""Bytes of one message."""


class ProgramError(Exception):
    """The other side is gone, or what it says cannot be read."""


class Channel:
    """One end. Once something went wrong with it, nothing more is sent or read: `broken`."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.broken = False

    def send(self, message: Any) -> None:
        data = json.dumps(message).encode()
        if len(data) > MOST:
            raise ValueError(f"a value of {len(data):,} bytes is too large to leave the program")
        data = struct.pack("=I", len(data)) + data
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError:
            self.fail("the program ended before its tests")

    def receive(self) -> Any:
        (size,) = struct.unpack("=I", self._read(4))
        if size > MOST:
            self.fail("the program sent too long a message")
        data = self._read(size)
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            self.fail("the program sent what is not a message")

    def fail(self, reason: str) -> NoReturn:
        self.broken = True
        raise ProgramError(reason)

    def _read(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            try:
                part = b"" if self.broken else os.read(self._descriptor, min(size - len(parts), 1 << 20))
            except OSError:
                part = b""
            if not part:
                self.fail("the program ended before its tests")
            parts += part
        return bytes(parts)
