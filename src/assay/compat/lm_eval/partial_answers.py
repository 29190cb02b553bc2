"""Answers of a backend of lm-evaluation-harness as they come.

Its methods return all answers at once, so whatever ends a call in the middle would take every answer of the call with it. But
backends tell a cache of each answer as soon as they have it (`cache_hook.add_partial`). Here the cache is a queue: the backend
works on a thread of its own, and each answer that it tells of is passed on at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any

from assay.instance import Instance, Response
from assay.models import Stop

Stream = Callable[[Stop], Iterator[tuple[int, Response]]]


class AnswerQueue:
    """What a backend takes for its cache."""

    def __init__(self, put: Callable[[Hashable, Any], None]) -> None:
        self._put = put

    def add_partial(self, attr: str, req: Iterable[Any], res: Any) -> None:
        if res is not None:
            self._put(_key(attr, list(req)), res)


def _key(request_type: str, arguments: Sequence[Any]) -> Hashable:
    """What tells one request of a call from the others. Settings of a generation are left out: backends change them.

    >>> _key("loglikelihood", ["a", " b"]), _key("generate_until", ["a", {"until": []}])
    (('loglikelihood', 'a', ' b'), ('generate_until', 'a'))
    >>> _key("loglikelihood_rolling", ["a"]) == _key("loglikelihood_rolling", ["", "a"])  # 0.4 and 0.5
    True
    """
    if request_type == "loglikelihood":
        return (request_type, *map(str, arguments[:2]))
    return request_type, str(arguments[-1 if request_type == "loglikelihood_rolling" else 0])


def stream_partial(
    inner: Any,
    request_type: str,
    instances: Sequence[Instance],
    whole: Stream,
    read: Callable[[Any], Response],
    stop: Stop,
) -> Iterator[tuple[int, Response]]:
    """`whole`, a stream that gives the answers of a call when the call ends, with each answer once and as soon as it is known.

    Requests that cannot be told apart (draws of one prompt) wait for the end of their call. An error comes after the
    answers that were there before it.
    """
    keys = [_key(request_type, instance.args) for instance in instances]
    times = Counter(keys)
    places = {key: place for place, key in enumerate(keys) if times[key] == 1}
    found: SimpleQueue[tuple[Hashable, Any] | BaseException | None] = SimpleQueue()
    closed = Event()

    def work() -> None:
        try:
            for place, response in whole(lambda: closed.is_set() or stop()):
                found.put((place, response))
            found.put(None)
        except BaseException as error:  # raised again below, on the thread of the run
            found.put(error)

    before = inner.cache_hook
    inner.set_cache_hook(AnswerQueue(lambda key, answer: found.put((key, answer))))
    worker = Thread(target=work, name=f"{type(inner).__name__}.{request_type}", daemon=True)
    worker.start()
    given: set[int] = set()
    try:
        while (item := found.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            key, answer = item
            place = key if isinstance(key, int) else places.get(key)
            if place is not None and place not in given:
                given.add(place)
                yield place, answer if isinstance(answer, Response) else read(answer)
    finally:
        closed.set()
        inner.set_cache_hook(before)
