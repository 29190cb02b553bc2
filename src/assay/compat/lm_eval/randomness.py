"""The random numbers that lm-evaluation-harness would draw while it scores a task."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

DRAWN = 24
"""Three random names of eight letters, which lm-evaluation-harness makes up for a task and throws away."""


class HarnessStream:
    """The state of both global generators for one task, which goes on from batch to batch of its docs.

    A task's draws then depend neither on the tasks before it nor on how its docs were split into batches. The seeds are
    those that lm-evaluation-harness starts a run with; by the time it scores a lone task it has drawn `DRAWN` numbers.
    """

    def __init__(self, python: int = 0, numpy: int = 1234) -> None:
        self._seeds = python, numpy
        self._last_doc = -1
        self._restart()

    def _restart(self) -> None:
        import numpy as np

        python, numpy = self._seeds
        generator = random.Random(python)
        for _ in range(DRAWN):
            generator.random()
        self._python: Any = generator.getstate()
        self._numpy: Any = np.random.RandomState(numpy).get_state()

    @contextmanager
    def active(self, doc_ids: Collection[int]) -> Iterator[None]:
        """Let the global generators run on from this stream, and put their own states back afterwards.

        Docs that do not follow those of the last call begin the task anew, and the stream with it.
        """
        import numpy as np

        if doc_ids and min(doc_ids) <= self._last_doc:
            self._restart()
        self._last_doc = max(doc_ids, default=self._last_doc)
        python, numpy = random.getstate(), np.random.get_state()
        random.setstate(self._python)
        np.random.set_state(self._numpy)
        try:
            yield
        finally:
            self._python, self._numpy = random.getstate(), np.random.get_state()
            random.setstate(python)
            np.random.set_state(numpy)
