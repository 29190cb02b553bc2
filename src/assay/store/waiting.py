"""A connection that says when it waits: another process may have locked the file."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
logger = logging.getLogger("assay.store")

STEP_SECONDS = 1.0
PATIENCE_SECONDS = 60.0


class WaitingConnection(sqlite3.Connection):
    """Tries a statement again while the file is locked, for a minute, and says so after a second.

    A locked statement has changed nothing. Once a minute was waited in vain, the next statements wait a second each, so
    that a run that cannot write ends soon.
    """

    has_given_up = False
    where = ""

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        return self._wait(lambda: super(WaitingConnection, self).execute(*arguments))

    def executemany(self, *arguments: Any) -> sqlite3.Cursor:
        return self._wait(lambda: super(WaitingConnection, self).executemany(*arguments))

    def executescript(self, *arguments: Any) -> sqlite3.Cursor:
        return self._wait(lambda: super(WaitingConnection, self).executescript(*arguments))

    def _wait(self, work: Callable[[], T]) -> T:
        until = time.monotonic() + (0 if self.has_given_up else PATIENCE_SECONDS)
        told = self.has_given_up
        while True:
            try:
                result = work()
                self.has_given_up = self.has_given_up and not self.in_transaction  # reading waits for nobody
                return result
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                    raise
                if time.monotonic() >= until:
                    self.has_given_up = True
                    raise
            if not told:
                logger.warning(
                    "another process has locked the response store %s; waiting up to %.0f s for it; "
                    "end it, or choose another place with --store or ASSAY_STORE",
                    self.where,
                    PATIENCE_SECONDS,
                )
                told = True
