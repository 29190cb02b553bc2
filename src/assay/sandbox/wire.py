"""How values cross between the test runner and the program: as JSON, built up again on the other side.

Values of the plain types cross as copies. Everything else stays where it is and crosses as a number, for which the other
side makes a `Proxy`: whatever is done with that is asked of the side that has the object. What a side does on request is
its own decision (`Peer.perform`); the test runner does next to nothing.

A mutable argument that the callee changed is changed for the caller too, as in one process.

Run in an interpreter that knows nothing of assay: the standard library only.
"""

from __future__ import annotations

import builtins
import json
import os
import struct
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING or __package__:
    from assay.sandbox.coding import Decoder, ProgramError, ValueEncoder, contents, same
    from assay.sandbox.proxies import Proxy
else:
    from coding import Decoder, ProgramError, ValueEncoder, contents, same
    from proxies import Proxy

MOST = 64 << 20
"""Bytes of one message."""


class Peer:
    """One end of the channel."""

    def __init__(self, channel: int) -> None:
        self._channel = channel
        self._broken = False
        self._objects: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._proxies: dict[int, Any] = {}
        self._classes: dict[int, type] = {}

    def ask(self, operation: str, *arguments: Any) -> Any:
        """Have the other side do something; meanwhile do what it asks."""
        encoder = ValueEncoder(self)
        message = [operation, [encoder.encode(each) for each in arguments]]
        self._send(["ask", *message])
        while True:
            kind, *content = self._receive()
            if kind == "ask":
                self._serve(*content)
                continue
            decoder = Decoder(self, encoder.mutables)
            if kind == "error":
                raise self._error(decoder, *content)
            value, changes = content
            result = decoder.decode(value)
            decoder.restore(changes)
            return result

    def serve_forever(self) -> None:
        while True:
            _, *content = self._receive()
            self._serve(*content)

    def perform(self, operation: str, arguments: list[Any]) -> Any:
        raise TypeError(f"{operation} is not done on this side")

    def _serve(self, operation: str, arguments: list[Any]) -> None:
        decoder = Decoder(self, [])
        values = [decoder.decode(each) for each in arguments]
        before = [contents(each) for each in decoder.mutables]
        encoder = ValueEncoder(self, decoder.mutables)
        try:
            result = encoder.encode(self.perform(operation, values))
            changed = [
                (n, encoder.contents(each))
                for n, (each, old) in enumerate(zip(decoder.mutables[: len(before)], before))
                if not same(old, contents(each))
            ]
            reply = ["value", result, changed]
        except BaseException as error:  # the other side raises it
            reply = ["error", *self._describe(error)]
        self._send(reply)

    def _describe(self, error: BaseException) -> list[Any]:
        try:
            arguments = [ValueEncoder(self).encode(each) for each in error.args]
        except BaseException:  # the arguments or the constructor of the program's own class may raise anything
            arguments = []
        return [self.encode_exception_class(type(error)), arguments]

    def _error(self, decoder: Decoder, cls: list[Any], arguments: list[Any]) -> BaseException:
        made = self.exception_class(*cls[1:])
        values = [decoder.decode(each) for each in arguments]
        try:
            return made(*values)
        except BaseException:  # the arguments or the constructor of the program's own class may raise anything
            return ValueError(made.__name__)

    def _send(self, message: Any) -> None:
        data = json.dumps(message).encode()
        if len(data) > MOST:
            raise ValueError(f"a value of {len(data):,} bytes is too large to leave the program")
        data = struct.pack("=I", len(data)) + data
        try:
            while data:
                data = data[os.write(self._channel, data) :]
        except OSError:
            self._break()

    def _receive(self) -> list[Any]:
        if self._broken:
            self._break()
        (size,) = struct.unpack("=I", self._read(4))
        if size > MOST:
            self._break()
        message = json.loads(self._read(size))
        if not isinstance(message, list) or not message:
            raise ProgramError("a message that is not a list")
        return message

    def _read(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            try:
                part = os.read(self._channel, min(size - len(parts), 1 << 20))
            except OSError:
                part = b""
            if not part:
                self._break()
            parts += part
        return bytes(parts)

    def _break(self) -> NoReturn:
        self._broken = True
        raise ProgramError("the program ended before its tests")

    def keep(self, value: Any) -> int:
        """The number under which the other side knows an object of this one."""
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = len(self._objects)
            self._objects.append(value)
        return number

    def kept(self, number: int) -> Any:
        return self._objects[number]

    def proxy(self, number: int, base: str) -> Any:
        if number not in self._proxies:
            cls = getattr(builtins, base)
            self._proxies[number] = Proxy(self, number, cls if isinstance(cls, type) else object)
        return self._proxies[number]

    def encode_exception_class(self, cls: type[BaseException]) -> list[Any]:
        base = next(each for each in cls.__mro__ if getattr(builtins, each.__name__, None) is each)
        return ["exception", -1 if base is cls else self.keep(cls), cls.__name__, base.__name__]

    def exception_class(self, number: int, name: str, base: str) -> type[BaseException]:
        """A class of this side for an exception of the other: of the same name and the same built-in parent."""
        parent = getattr(builtins, base)
        if not issubclass(parent, BaseException):
            raise TypeError(f"{base} is not an exception")
        if number < 0:
            return parent  # type: ignore[no-any-return]
        if number not in self._classes:
            self._classes[number] = type(str(name), (parent,), {})
        return self._classes[number]
