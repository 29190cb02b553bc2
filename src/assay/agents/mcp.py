"""Tools of servers that speak the Model Context Protocol: a process for each trajectory, or a server that runs already.

What a server says is taken as untrusted text: names, schemas and results have limits, and one that does not answer in time, dies
or lists other tools than before is a broken tool.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import signal
import threading
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from functools import cache
from typing import Any, TypeVar

from assay.agents.tools import BrokenTool, Tool
from assay.config import ToolConfig
from assay.errors import ConfigError, MissingPackage, ToolError, install_hint

T = TypeVar("T")
LINE = 8 << 20
"""Bytes of one message of a server."""
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_MOST_TOOLS, _MOST_SCHEMA, _MOST_PAGES = 256, 100_000, 20
_GRACE = 1.0
"""Seconds that a server has to end when its input does."""


class McpTools:
    """A connection for one trajectory; with a command, to a process of its own."""

    def __init__(self, config: ToolConfig, expected: list[dict[str, Any]] | None = None) -> None:
        self.config = config
        self.name = str(config.mcp if isinstance(config.mcp, str) else config.mcp and config.mcp[0])
        self._client: Any = None
        self._ready: asyncio.Future[None] | None = None
        self._end: asyncio.Event | None = None
        self._listed: list[Any] = []
        self._live = asyncio.run_coroutine_threadsafe(self._connect(), _loop())
        try:
            _wait(self._started(), config.seconds + _GRACE, self.name)
            if expected is not None and [tool.offer for tool in self.tools()] != expected:
                raise BrokenTool(f"{self.name} lists other tools than before")
        except BaseException:
            self.close()
            raise

    async def _started(self) -> None:
        while self._ready is None:
            await asyncio.sleep(0)
        async with asyncio.timeout(self.config.seconds):
            await asyncio.shield(self._ready)

    async def _connect(self) -> None:
        """Opened and closed by one task, as the protocol's own client wants it."""
        from mcp import Client

        self._ready, self._end = asyncio.get_running_loop().create_future(), asyncio.Event()
        target: Any = self.config.mcp if self.config.is_remote else started(self.config)
        try:
            async with Client(target, read_timeout_seconds=self.config.seconds + 2 * _GRACE) as client:
                self._client = client
                self._listed = await _listing(client)
                self._ready.set_result(None)
                await self._end.wait()
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(BrokenTool(f"{self.name}: {said_of(error)}"))

    def tools(self) -> list[Tool]:
        return [self._tool(each) for each in self._listed]

    def _tool(self, listed: Any) -> Tool:
        name, schema = str(listed.name), listed.input_schema
        if not _NAME.fullmatch(name):
            raise BrokenTool(f"{self.name} lists a tool with the name {name[:80]!r}")
        if not isinstance(schema, Mapping) or len(json.dumps(schema)) > _MOST_SCHEMA:
            raise BrokenTool(f"{self.name} lists no usable schema for {name}")
        about = " ".join(str(listed.description or "").split())[:2000]
        return Tool(
            name,
            about,
            {"type": "object", "properties": {}, **schema},
            call=lambda arguments: self._call(name, arguments),
            acts_outside=self.config.acts_outside,
            seconds=self.config.seconds + 2 * _GRACE,
        )

    def _call(self, name: str, arguments: Mapping[str, Any]) -> str:
        result = _wait(self._client.call_tool(name, dict(arguments)), self.config.seconds, f"{self.name}: {name}")
        parts = [str(each.text) if each.type == "text" else f"[{each.type}]" for each in result.content]
        if not parts and result.structured_content is not None:
            parts = [json.dumps(result.structured_content, ensure_ascii=False)]
        text = "\n".join(parts)
        if result.is_error:
            raise ToolError(text or "the call failed")
        return text

    def state(self) -> Mapping[str, Any]:
        return {}

    def files(self) -> tuple[Mapping[str, bytes], Mapping[str, str]]:
        return {}, {}

    def close(self) -> None:
        if self._end is not None:
            _loop().call_soon_threadsafe(self._end.set)
        with suppress(BaseException):
            self._live.result(3 * _GRACE)
        self._live.cancel()


async def _listing(client: Any) -> list[Any]:
    listed: list[Any] = []
    cursor = None
    for _ in range(_MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        listed += page.tools
        cursor = page.next_cursor
        if cursor is None or len(listed) > _MOST_TOOLS:
            break
    if cursor is not None or len(listed) > _MOST_TOOLS:
        raise BrokenTool(f"it lists more than {_MOST_TOOLS} tools")
    return listed


@asynccontextmanager
async def started(config: ToolConfig) -> AsyncIterator[Any]:
    """A server's process, and the streams of messages to and from it; all of it is killed in the end, whatever it does.

    The package's own reads a line of any length, in time that grows with its square.
    """
    import anyio
    import mcp_types
    from mcp.shared.message import SessionMessage

    words = shlex.split(config.mcp) if isinstance(config.mcp, str) else list(config.mcp or ())
    inherited = {name: os.environ[name] for name in ("HOME", "PATH", "LANG", "TMPDIR") if name in os.environ}
    process = await asyncio.create_subprocess_exec(
        *words,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={**inherited, **config.env},
        limit=LINE,
        start_new_session=True,
    )
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None
    assert stdout is not None
    to_client, incoming = anyio.create_memory_object_stream[Any](16)
    outgoing, from_client = anyio.create_memory_object_stream[Any](16)

    async def read() -> None:
        async with to_client:
            with suppress(anyio.BrokenResourceError, ValueError, ConnectionError):  # also a line beyond the limit
                while line := await stdout.readline():
                    message = mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                    await to_client.send(SessionMessage(message))

    async def write() -> None:
        async with from_client:
            with suppress(ConnectionError):
                async for each in from_client:
                    stdin.write(each.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                    await stdin.drain()

    tasks = [asyncio.ensure_future(read()), asyncio.ensure_future(write())]
    try:
        yield incoming, outgoing
    finally:
        stdin.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_GRACE):
                await process.wait()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await process.wait()


def listed_tools(config: ToolConfig) -> list[Tool]:
    """What a server offers, asked once for all docs; wrong commands are found here, before the first request."""
    try:
        import mcp  # noqa: F401
    except ImportError as error:
        raise MissingPackage("tools of MCP servers need the package mcp", hint=install_hint("agents")) from error
    return _listed(config.model_dump_json(exclude={"function"}))


@cache
def _listed(config: str) -> list[Tool]:
    try:
        source = McpTools(ToolConfig.model_validate_json(config))
    except BrokenTool as error:
        raise ConfigError(
            f"the MCP server does not start: {error}", hint="Check the command or address in `mcp:`."
        ) from None
    try:
        return source.tools()
    finally:
        source.close()


def said_of(error: BaseException) -> str:
    """The reason at the bottom of nested groups of errors."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {str(error)[:200]}"


def _wait(work: Coroutine[Any, Any, T], seconds: float, what: str) -> T:
    future = asyncio.run_coroutine_threadsafe(work, _loop())
    try:
        return future.result(seconds)
    except TimeoutError:
        future.cancel()
        raise BrokenTool(f"{what} did not answer within {seconds:g} s") from None
    except (BrokenTool, ToolError):
        raise
    except Exception as error:
        raise BrokenTool(f"{what}: {said_of(error)}") from error


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """All connections are looked after by one thread."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="assay-mcp", daemon=True).start()
    return loop
