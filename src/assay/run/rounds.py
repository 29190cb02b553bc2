"""The rounds of a window: all docs together, round by round; or, where tools and other models have a part, side by side.

An agent waits for its model most of the time, and for its tools the rest of it. Whatever is ready goes to the model at once,
as many trajectories as it takes; a slow tool holds up its own trajectory only.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import NamedTuple

from assay.run.answerers import Answerer
from assay.run.doc_work import DocWork
from assay.run.plan import Plan
from assay.run.progress import Interrupted
from assay.store import request_digest

AT_ONCE = 64
"""Trajectories that are under way together, at least; each may have a sandbox of its own."""
STREAMS = 32
"""Requests, or bundles of them, that are sent one by one to a model which takes several at once."""
BUNDLE = 0.005
"""Seconds in which answers and results are taken together: a bundle of requests costs little more than one."""
GATHER = 0.02
"""Seconds that a model which takes one bundle at a time waits for tools that are still running."""

Done = Callable[[DocWork], None]
RoleAnswerers = Mapping[str, Done]
"""Who answers rounds that are not for the model under test: tools, and other models, by role."""


def answer_rounds(plan: Plan, answerer: Answerer, window: Sequence[DocWork], done: Done, others: RoleAnswerers) -> None:
    """Answer the docs of a window, and what their answers give rise to, until no task has a further request. Trajectories go
    side by side where somebody answers for their tools; an answerer that only counts has none to wait for."""
    works = [part for work in window for part in draws_of(plan, work)] if answerer.takes_steps else window
    acting = [work for work in works if others and plan.tasks[work.task].task.acts and work.of is not None]
    together = [work for work in works if work.of is None or not plan.tasks[work.task].task.acts] if acting else works
    by_rounds(plan, answerer, together, done)
    if acting:
        SideBySide(plan, answerer, others, done).run(acting)
    answerer.check(window)


def draws_of(plan: Plan, work: DocWork) -> list[DocWork]:
    """A doc as it is; or its draws, where each is a conversation of its own."""
    task = plan.tasks[work.task].task
    if plan.branches is None:
        draws = task.trajectories(work.requests)
    else:
        draws = task.branches(work.requests, plan.branches(work))
    if draws[0] is work.requests:
        return [work]
    work.draws = [DocWork(work.task, each, of=work) for each in draws]
    work.pending = len(draws)
    return work.draws


def next_round(plan: Plan, work: DocWork, done: Done) -> bool:
    """Whether the answers so far give rise to more. A doc whose last draw is over is answered by all of them."""
    task, doc = plan.tasks[work.task].task, work.of
    work.begin_round(task.next_requests(work.requests) if work.is_answered else [])
    if work.round:
        return True
    if doc is not None:
        doc.pending -= 1
        if not doc.pending:
            task.fold(doc.requests, [each.requests for each in doc.draws])
            doc.digests, doc.draws = [request_digest(each) for each in doc.requests.instances], []
            done(doc)
    return False


def by_rounds(plan: Plan, answerer: Answerer, works: Sequence[DocWork], done: Done) -> None:
    """All of them together, round by round."""
    while works:
        answerer.answer(works, lambda work: None if work.of is not None else done(work))
        works = [work for work in works if next_round(plan, work, done)]


class SideBySide:
    """Trajectories on their way, each at its own pace. One thread decides what comes next; others wait for answers."""

    def __init__(self, plan: Plan, answerer: Answerer, others: RoleAnswerers, done: Done) -> None:
        self.plan, self.answerer, self.others, self.done = plan, answerer, others, done
        self.streams = 1 if answerer.windows_at_once == 1 else STREAMS
        self.ready: list[DocWork] = []
        self.sent = 0
        """Bundles under way to the model."""
        self.acting = 0
        """Rounds under way to tools and other models."""
        self.events: SimpleQueue[Event] = SimpleQueue()
        self.error: BaseException | None = None
        """The first that concerns all: nothing new is begun after it."""

    def run(self, works: Sequence[DocWork]) -> None:
        waiting, under_way = deque(works), 0
        most = max(AT_ONCE, self.answerer.window_requests // 64)
        with ThreadPoolExecutor(most + self.streams, thread_name_prefix="assay-agents") as pool:
            try:
                while waiting or under_way:
                    while waiting and under_way < most:
                        under_way += 1
                        self._begin(pool, waiting.popleft())
                    self._send(pool)
                    for work in self._answered(pool):
                        if next_round(self.plan, work, self.done):
                            self._begin(pool, work)
                        else:
                            under_way -= 1
                            pool.submit(work.requests.state.close)
                    if self.error is not None and not self.sent and not self.acting:
                        raise self.error
            except BaseException as error:
                if not isinstance(error, Interrupted):
                    self.answerer.cancel()
                raise
            finally:
                for work in works:
                    pool.submit(work.requests.state.close)

    def _begin(self, pool: ThreadPoolExecutor, work: DocWork) -> None:
        """Have a round answered: with the next bundle for the model, or on a thread of its own."""
        role = work.round[0].role
        if role == "model":
            self.ready.append(work)
        elif self.error is None:
            self.acting += 1
            pool.submit(self._reported, "acted", lambda: self.others[role](work), work)

    def _send(self, pool: ThreadPoolExecutor) -> None:
        """What is ready. A model that takes one bundle at a time waits a moment for tools that may be about to end."""
        if self.ready and self.sent < self.streams and self.error is None and (self.streams > 1 or not self.acting):
            self._send_now(pool)

    def _send_now(self, pool: ThreadPoolExecutor) -> None:
        bundle, self.ready, started = self.ready, [], time.perf_counter()
        self.sent += 1

        def answered(work: DocWork) -> None:
            work.round[0].note["seconds"] = time.perf_counter() - started
            self.events.put(Event("answered", work))

        pool.submit(self._reported, "sent", lambda: self.answerer.answer(bundle, answered))

    def _reported(self, what: str, act: Callable[[], None], work: DocWork | None = None) -> None:
        try:
            act()
            self.events.put(Event(what, work))
        except BaseException as error:  # raised where the trajectories are awaited
            self.events.put(Event(what, None, error))

    def _answered(self, pool: ThreadPoolExecutor) -> Iterator[DocWork]:
        """Those whose round is answered, as soon as there are any."""
        gathering = bool(self.ready) and not self.sent and self.error is None
        try:
            event = self.events.get(timeout=GATHER if gathering else None)
        except Empty:
            self._send_now(pool)
            return
        time.sleep(BUNDLE)
        while True:
            self.sent -= event.what == "sent"
            self.acting -= event.what == "acted"
            self.error = self.error or event.error
            if event.work is not None and self.error is None:
                yield event.work
            if self.events.empty():
                return
            event = self.events.get()


class Event(NamedTuple):
    """`answered`: the model answered a round; `acted`: so did somebody else; `sent`: a bundle is over."""

    what: str
    work: DocWork | None = None
    error: BaseException | None = None
