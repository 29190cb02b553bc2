"""A process whose address space somebody has limited (`ulimit -v`, some schedulers of clusters), and out of memory in general."""

from __future__ import annotations

import errno
import os
import sys

from assay.errors import ConfigError

LEAST = 1 << 30
"""Bytes. Each verb has done small work in 1,000 MB; libraries alone take most of that."""


def require_address_space() -> None:
    """Refuse too small a limit, and load scipy under a limit of address space while there is room: the OpenBLAS in it asks for a
    buffer when it is loaded, asks again for ever when it gets none, and hears no signal meanwhile. It would take one for each core."""
    if not sys.platform.startswith("linux"):
        return
    import resource

    limits = {kind: resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)}
    for kind, name, flag in ((resource.RLIMIT_AS, "address space", "-v"), (resource.RLIMIT_DATA, "data", "-d")):
        if 0 <= limits[kind] < LEAST:
            raise ConfigError(
                f"this process may have no more than {limits[kind] >> 20} MB of {name}; "
                f"the libraries behind the numbers need {LEAST >> 20}",
                hint=f"`ulimit {flag}` shows and sets the limit in kB; models that run here need far more.",
            )
    if limits[resource.RLIMIT_AS] != resource.RLIM_INFINITY:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        import scipy.special  # noqa: F401


def is_out_of_memory(error: BaseException) -> bool:
    """Whether this is what memory or address space that has run out looks like, of whatever library."""
    if isinstance(error, ImportError):
        return "failed to map segment" in str(error) or "annot allocate memory" in str(error)
    if isinstance(error, RuntimeError):
        return "can't start new thread" in str(error) or "can't allocate memory" in str(error)
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
