"""A server of the Model Context Protocol with a state of its own, over stdio or HTTP; it can be told to misbehave."""

from __future__ import annotations

import os
import sys
import time

from mcp.server import MCPServer

app = MCPServer("counter")
count = 0


@app.tool()
def add(n: int) -> str:
    """Add to the count."""
    global count
    count += n
    return f"{count} (process {'one' if os.environ.get('MARK') else 'other'})"


@app.tool()
def fail() -> str:
    """Always fails."""
    raise ValueError("it cannot")


@app.tool()
def hang() -> str:
    """Never answers."""
    time.sleep(3600)
    return ""


@app.tool()
def die() -> str:
    """Ends its process."""
    os._exit(1)


@app.tool()
def shout(n: int) -> str:
    """Says very much."""
    return "a" * n


if __name__ == "__main__":
    if sys.argv[1:2] == ["http"]:
        app.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
    else:
        app.run("stdio")
