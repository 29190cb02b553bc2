"""What a run would cost: docs, requests, tokens after prefix sharing, time and money. Nothing is sent to a server."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from assay.config import RunConfig
from assay.instance import Instance, context_text, is_chat
from assay.models import LM, GenerationSettings, LazyLM, count_distinct
from assay.request_types import REQUEST_TYPES
from assay.run.answerers import WINDOW_REQUESTS, AnswerKeys, is_sampled, stream_answers
from assay.run.branching import Branch
from assay.run.doc_work import DocWork
from assay.run.extending import ExtendingAnswerer
from assay.run.pipeline import answer_all
from assay.run.prepare import prepare, ready_model
from assay.run.progress import Progress, Quiet
from assay.store import ResponseStore, request_digest
from assay.tasks import floors_of

BYTES_PER_TOKEN = 4
"""For models that do not say how they tokenise."""
CALIBRATION_REQUESTS = 8


@dataclass
class TaskForecast:
    docs: int = 0
    requests: int = 0
    kept: int = 0
    """Requests whose answer is in the store already."""
    tokens: int = 0
    """To compute, with shared prefixes; of a server, what it would be if it shared them."""


@dataclass(frozen=True)
class Forecast:
    """`prompt_tokens` are those of all prompts one by one, `distinct_tokens` those left when prefixes are shared."""

    tasks: dict[str, TaskForecast]
    prompt_tokens: int
    distinct_tokens: int
    generated_tokens: int
    """At most: every generation up to its limit."""
    exact: bool
    """Whether the model's own tokenizer counted."""
    seconds: float | None
    cost: float | None
    judged: dict[str, list[str]] = field(default_factory=dict)
    """Tasks whose answers are judged, which is not counted, and the floors that are judged beside them."""

    @property
    def requests(self) -> int:
        return sum(task.requests for task in self.tasks.values())

    @property
    def to_ask(self) -> int:
        return self.requests - sum(task.kept for task in self.tasks.values())


def forecast(config: RunConfig, *, model: LM | object | None = None, progress: Progress | None = None) -> Forecast:
    """Build every request of the run and count. A backend that computes here answers a handful to measure its speed.

    What a run would refuse before its first request is refused here too.
    """
    progress = progress or Quiet()
    with ExitStack() as stack:

        def load() -> LM:
            lm = ready_model(config, model, progress.message)
            lm = lm.real if isinstance(lm, LazyLM) else lm  # its tokenizer counts
            if model is None:  # a model that was handed over may be used again by whoever did
                stack.callback(lm.close)
            return lm

        prepared = prepare(config, stack, progress, load=load)
        lm, plan = prepared.model, prepared.plan
        if config.branch is not None:
            plan = Branch.open(config.branch, config).of(plan)
        assert prepared.store is not None
        progress.stage("building requests")
        counter = _Counter(lm)
        families = {name: plan.asked_of(name) for name in plan.tasks}
        answerer = ForecastAnswerer(AnswerKeys(lm.fingerprint()), prepared.store, counter, families)
        answer_all(plan, answerer if config.extend is None else ExtendingAnswerer.open(config.extend, answerer, lm))
        info = lm.info()
        seconds = counter.seconds() if model is None and info.computes_here else None
    prices = info.prices
    cost = None if prices is None else (counter.prompt * prices[0] + counter.generated * prices[1]) / 1e6
    judged = {
        name: [*floors_of(each.task, config.floors)] for name, each in plan.tasks.items() if each.task.scorer.roles
    }
    sent = counter.prompt, counter.distinct, counter.generated, counter.exact
    return Forecast(answerer.tasks, *sent, seconds, cost, {} if config.predict_only else judged)


class ForecastAnswerer:
    """Counts what would be sent, and answers nothing. What answers would give rise to is therefore not counted."""

    window_requests = WINDOW_REQUESTS
    windows_at_once = 1
    takes_steps = True

    def __init__(self, keys: AnswerKeys, store: ResponseStore, counter: _Counter, families: Mapping[str, str]) -> None:
        """`families`: task to the task for whose floor it is asked, or to itself."""
        self.keys, self.store, self.counter, self.families = keys, store, counter, families
        self.tasks = {name: TaskForecast() for name in families}

    def answer(self, docs: Sequence[DocWork], done: Callable[[DocWork], None]) -> None:
        sent: dict[str, list[tuple[bytes, Instance]]] = {}
        for work in docs:
            self.tasks[work.task].docs += work.of is None or work is work.of.draws[0]
            for instance in (each for each in work.round if each.role == "model"):
                digest = request_digest(instance)
                draws = range(instance.draw, instance.draw + instance.repeats) if is_sampled(instance) else (0,)
                own = sent.setdefault(work.task, [])
                own.extend((self.keys.key(digest, draw), instance) for draw in draws)
        counted: dict[str, list[Instance]] = {}
        for task, requests in sent.items():
            stored = self.store.get_many([key for key, _ in requests])
            self.tasks[task].requests += len(requests)
            self.tasks[task].kept += sum(key in stored for key, _ in requests)
            own_new = [instance for key, instance in requests if key not in stored]
            before = counted.setdefault(self.families[task], [])
            self.tasks[task].tokens += self.counter.add(own_new, before)
            before += own_new

    def check(self, docs: Sequence[DocWork]) -> None:
        pass

    def cancel(self) -> None:
        pass

    def notes(self) -> list[str]:
        return []


class _Counter:
    """Counts tokens window by window."""

    def __init__(self, lm: LM) -> None:
        self.lm = lm
        self.exact = lm.count_tokens("generate_until", []) is not None
        self.max_gen_toks = lm.info().max_gen_toks
        self.prompt = self.distinct = self.generated = 0
        self.first: list[Instance] = []

    def add(self, instances: Sequence[Instance], counted: Sequence[Instance] = ()) -> int:
        """Count them; how many tokens are left when prefixes are shared, among them and with those that were counted."""
        before = self.distinct
        by_type: dict[str, list[Instance]] = {}
        for instance in instances:
            by_type.setdefault(instance.request_type, []).append(instance)
            if REQUEST_TYPES[instance.request_type].is_text:
                settings = instance.arguments[1]
                self.generated += GenerationSettings.parse(settings, max_gen_toks=self.max_gen_toks).max_gen_toks
        self.first = self.first or list(instances[:CALIBRATION_REQUESTS])
        for kind, group in by_type.items():
            self.prompt += sum(self._tokens(kind, [instance]) for instance in group)
            earlier = [instance for instance in counted if instance.request_type == kind]
            self.distinct += self._tokens(kind, [*earlier, *group]) - (self._tokens(kind, earlier) if earlier else 0)
        return self.distinct - before

    def _tokens(self, kind: str, instances: Sequence[Instance]) -> int:
        answers_itself = REQUEST_TYPES[kind].answer is None or callable(getattr(self.lm, kind, None))
        counted = self.lm.count_tokens(kind, instances) if answers_itself else None
        if counted is not None:
            return counted
        texts = ["".join(_texts_of(instance)) for instance in instances]
        return -(-count_distinct([list(text.encode("utf-8", "replace")) for text in texts]) // BYTES_PER_TOKEN)

    def seconds(self) -> float | None:
        """From the speed on the first few requests: prompt tokens and, at most, generated ones."""
        if not self.first:
            return 0.0
        kind = self.first[0].request_type
        sample = [instance for instance in self.first if instance.request_type == kind]
        before = getattr(self.lm.usage, "generated_tokens", 0)
        began = time.perf_counter()
        for _ in stream_answers(self.lm, kind, sample, [0] * len(sample), lambda: False):
            pass
        took = time.perf_counter() - began
        tokens = self._tokens(kind, sample) + getattr(self.lm.usage, "generated_tokens", 0) - before
        return took / max(tokens, 1) * (self.distinct + self.generated)


def _texts_of(instance: Instance) -> list[str]:
    return [context_text(part) for part in instance.arguments if isinstance(part, str) or is_chat(part)]
