"""Prefetching: while the docs of one window are scored, those of the next are being answered.

A server answers elsewhere and would otherwise stand idle while its answers are scored, and while the last few of a window
are awaited. Scoring stays on the main thread, where its clocks work; each window that is sent has a thread of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor

from assay.run.doc_work import DocWork
from assay.run.progress import Interrupted


def answered_windows(
    windows: Iterable[list[DocWork]],
    answer: Callable[[list[DocWork]], None],
    cancel: Callable[[], None],
    at_once: int,
) -> Generator[list[DocWork], None, None]:
    """Each window when it is answered, in order; meanwhile the following ones are, up to `at_once`.

    Closed early, or after an error, it cancels what is under way. After a stop that was requested, what is under way is
    awaited.
    """
    if at_once == 1:
        for window in windows:
            answer(window)
            yield window
        return
    left = iter(windows)
    under_way: deque[tuple[list[DocWork], Future[None]]] = deque()
    pool = ThreadPoolExecutor(at_once, thread_name_prefix="assay-sending")

    def begin() -> None:
        for window in left:
            copied = [*window]  # whoever made it uses the list again
            under_way.append((copied, pool.submit(answer, copied)))
            return

    try:
        for _ in range(at_once):
            begin()
        while under_way:
            window, future = under_way[0]
            future.result()
            under_way.popleft()
            yield window
            window.clear()  # let go of what was scored before the next docs are read
            begin()
    except Interrupted:
        raise
    except BaseException:
        cancel()
        raise
    finally:
        try:
            pool.shutdown(cancel_futures=True)
        except BaseException:  # a second Ctrl-C, while those under way are awaited
            cancel()
            pool.shutdown(cancel_futures=True)
            raise
