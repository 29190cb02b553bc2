"""A real server in a thread, and a browser tab that remembers every complaint."""

from __future__ import annotations

import re
import socket
import threading
import time
from pathlib import Path
from typing import Any

from assay.view import create_app

LONGEST = 120_000
"""Milliseconds after which something that did not come is given up: a limit for a broken page, not a guess of how fast a machine is."""
ARTEFACTS = Path(__file__).parents[2] / "test-artifacts" / "viewer"


class Server:
    """The application on a free port, in a thread."""

    def __init__(self, directories: list[Path], scratch: Path) -> None:
        import uvicorn

        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self.server = uvicorn.Server(uvicorn.Config(create_app(directories, scratch=scratch), log_level="warning"))
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]}, daemon=True)
        self.thread.start()
        while not self.server.started:
            time.sleep(0.02)

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(10)


class Tab:
    """A page that remembers every complaint of the browser."""

    def __init__(self, page: Any, address: str) -> None:
        self.page, self.address = page, address
        self.complaints: list[str] = []
        page.on(
            "console",
            lambda message: self.complaints.append(message.text) if message.type in ("error", "warning") else None,
        )
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: (self.complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))

    def open(self, path: str) -> Any:
        return self.page.goto(self.address + path)

    def press(self, key: str) -> None:
        """A key, once the page listens: scripts are deferred, so that a table may stand there before anything hears."""
        self.page.wait_for_load_state("load")
        self.page.keyboard.press(key)

    def see(self, selector: str, text: str | re.Pattern[str]) -> None:
        """Wait until the first of these shows the text, on whatever page comes next."""
        from playwright.sync_api import expect

        expect(self.page.locator(selector).first).to_contain_text(text, timeout=LONGEST)

    def picture(self, name: str, *, full: bool = True) -> None:
        ARTEFACTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=str(ARTEFACTS / f"{name}.png"), full_page=full)
