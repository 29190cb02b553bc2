"""Task files may draw from the global random generators while they prepare docs; they must always draw the same."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

RANDOM_SEED = 0
NUMPY_SEED = 1234


@contextmanager
def seeded_globals(random_seed: int | None = RANDOM_SEED, numpy_seed: int | None = NUMPY_SEED) -> Iterator[None]:
    """Seed `random` and `numpy.random` inside the block (None leaves one alone) and put their states back afterwards.

    The docs of a task then depend neither on the tasks loaded before it nor on the order of the run. Progress bars of
    the `datasets` library are off meanwhile: the run shows its own.
    """
    import datasets
    import numpy as np

    had_bars = datasets.are_progress_bars_disabled() is False
    datasets.disable_progress_bars()

    python_state, numpy_state = random.getstate(), np.random.get_state()
    if random_seed is not None:
        random.seed(random_seed)
    if numpy_seed is not None:
        np.random.seed(numpy_seed)
    try:
        yield
    finally:
        if had_bars:
            datasets.enable_progress_bars()
        random.setstate(python_state)
        np.random.set_state(numpy_state)
