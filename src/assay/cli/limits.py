"""Limits for commands that only look at files, which may be anybody's: a file without Python can still ask for years of work."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Sequence

SECONDS = {"ls": 300, "show": 300, "validate": 900, "export": 3600, "import": 3600}
"""Of processor time, by verb: waiting for a download counts nothing. `ASSAY_LOOKING_SECONDS` sets another number."""
MEMORY = 16 << 30
"""Bytes that such a command may write to."""
GRACE = 5
"""Seconds after which one that cannot be told to end is ended by the kernel."""


def limit_looking(arguments: Sequence[str]) -> None:
    """Limit this process, if it is one that only looks."""
    verb = next((argument for argument in arguments if not argument.startswith("-")), "")
    if verb not in SECONDS or not sys.platform.startswith("linux"):
        return
    import resource

    chosen = os.environ.get("ASSAY_LOOKING_SECONDS", "")
    seconds = int(chosen) if chosen.isascii() and chosen.isdigit() and int(chosen) else SECONDS[verb]

    def give_up(number: int, frame: object) -> None:
        message = (
            f"assay: given up after {seconds} s of processor time; a file asks for more work than any benchmark needs\n"
        )
        with contextlib.suppress(OSError):
            os.write(2, message.encode())
        os._exit(2)

    signal.signal(signal.SIGXCPU, give_up)
    for what, value, most in (
        (resource.RLIMIT_CPU, seconds, seconds + GRACE),
        (resource.RLIMIT_DATA, MEMORY, MEMORY),
    ):
        _, hard = resource.getrlimit(what)
        if hard == resource.RLIM_INFINITY or hard > most:
            with contextlib.suppress(ValueError, OSError):
                resource.setrlimit(what, (value, most))
