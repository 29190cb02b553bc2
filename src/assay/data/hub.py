"""Whether the hub can be reached, asked once: the library finds out by retrying for half a minute, aloud, for each file."""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

_SECONDS = 5.0
"""How long a connection may take to open."""


@cache
def why_out_of_reach() -> str | None:
    """Why no connection can be opened to the hub; None where one can, or where nobody but the library can tell."""
    from huggingface_hub import constants

    parts = urlsplit(constants.ENDPOINT)
    if constants.HF_HUB_OFFLINE or parts.hostname is None or parts.scheme in getproxies():
        return None
    try:
        with socket.create_connection(
            (parts.hostname, parts.port or (80 if parts.scheme == "http" else 443)), _SECONDS
        ):
            return None
    except OSError as error:
        return f"{parts.hostname}: {error.strerror or error}"


@contextmanager
def hub_or_cache() -> Iterator[str | None]:
    """Inside, the hub is asked without comments on each retry; where it is out of reach, its local cache alone is. Gives
    the reason why it is out of reach."""
    from huggingface_hub import constants

    reason = why_out_of_reach()
    logger = logging.getLogger("huggingface_hub")
    level = logger.level
    logger.setLevel(logging.ERROR)
    switches = _switches(constants) if reason else []
    for switch in switches:
        switch.HF_HUB_OFFLINE = True
    try:
        yield reason
    finally:
        logger.setLevel(level)
        for switch in switches:
            switch.HF_HUB_OFFLINE = False


def _switches(constants: Any) -> list[Any]:
    """The modules whose `HF_HUB_OFFLINE` decides, as far as it is off; `datasets` keeps one of its own."""
    modules = [constants, sys.modules.get("datasets.config")]
    return [module for module in modules if module is not None and not module.HF_HUB_OFFLINE]
