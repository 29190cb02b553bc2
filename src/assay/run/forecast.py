"""What a run would cost: docs, requests, tokens after prefix sharing, time and money. Nothing is asked of a server."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from assay.config import RunConfig
from assay.instance import Instance, RequestType
from assay.models import LM, LazyLM, load_model
from assay.models.prefix_tree import count_distinct
from assay.run.docs import by_task, settle, windows
from assay.run.execute import model_for
from assay.run.hashes import AnswerKeys, request_digest
from assay.run.infer import Unit, is_sampled
from assay.run.plan import make_plan, seed_everything
from assay.run.progress import Progress, Quiet
from assay.store import ResponseStore

BYTES_PER_TOKEN = 4
"""For models that do not say how they tokenise."""
CALIBRATION_REQUESTS = 8
COMPUTE_HERE = frozenset({"hf", "hf-auto", "huggingface", "vllm", "ngram", "dummy"})
"""Backends that are known to ask no one. Any other, such as a class of one's own, may stand for a server that charges."""


@dataclass
class TaskForecast:
    docs: int = 0
    requests: int = 0
    kept: int = 0
    """Requests whose answer is in the store already."""


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

    @property
    def requests(self) -> int:
        return sum(task.requests for task in self.tasks.values())

    @property
    def to_ask(self) -> int:
        return self.requests - sum(task.kept for task in self.tasks.values())


def forecast(config: RunConfig, *, model: LM | object | None = None, progress: Progress | None = None) -> Forecast:
    """Build every request of the run and count. A backend that computes here answers a handful to measure its speed."""
    progress = progress or Quiet()
    seed_everything(config.seed)
    progress.stage("loading the model")
    lm = load_model(model) if model is not None else model_for(config, progress.message)
    if isinstance(lm, LazyLM):  # its tokenizer counts
        lm = lm.real
    progress.stage("building requests")
    plan = settle(make_plan(config, lm), config)
    tasks = {name: TaskForecast() for name in plan.tasks}
    counter = _Counter(lm)
    keys = AnswerKeys(lm.fingerprint())
    with ResponseStore(config.store, fresh=config.fresh, notify=progress.message) as store:
        for window in windows(plan):
            for name, units in by_task(window).items():
                missing = _count(tasks[name], units, keys, store)
                counter.add(missing)
    seconds = counter.seconds() if model is None and config.model in COMPUTE_HERE else None
    prices = getattr(lm, "prices", None)
    cost = None if not prices or not any(prices) else (counter.prompt * prices[0] + counter.generated * prices[1]) / 1e6
    lm.close()
    return Forecast(tasks, counter.prompt, counter.distinct, counter.generated, counter.exact, seconds, cost)


def _count(found: TaskForecast, units: Sequence[Unit], keys: AnswerKeys, store: ResponseStore) -> list[Instance]:
    """Take note of these docs; the requests that the store cannot answer."""
    asked: list[tuple[bytes, Instance]] = []
    for unit in units:
        found.docs += 1
        for instance in unit.requests.instances:
            digest = request_digest(instance)
            draws = instance.repeats if is_sampled(instance) else 1
            asked.extend((keys.key(digest, draw), instance) for draw in range(draws))
    kept = store.get_many([key for key, _ in asked])
    found.requests += len(asked)
    found.kept += sum(key in kept for key, _ in asked)
    return [instance for key, instance in asked if key not in kept]


class _Counter:
    """Counts tokens window by window."""

    def __init__(self, lm: LM) -> None:
        self.lm = lm
        self.exact = hasattr(lm, "count_tokens")
        self.prompt = self.distinct = self.generated = 0
        self.first: list[Instance] = []

    def add(self, instances: Sequence[Instance]) -> None:
        by_type: dict[RequestType, list[Instance]] = {}
        for instance in instances:
            by_type.setdefault(instance.request_type, []).append(instance)
            if instance.request_type == "generate_until":
                settings = instance.arguments[1]
                self.generated += int(settings.get("max_gen_toks") or settings.get("max_new_tokens") or 256)
        self.first = self.first or list(instances[:CALIBRATION_REQUESTS])
        for kind, group in by_type.items():
            self.prompt += sum(self._tokens(kind, [instance]) for instance in group)
            self.distinct += self._tokens(kind, group)

    def _tokens(self, kind: RequestType, instances: Sequence[Instance]) -> int:
        count: Any = getattr(self.lm, "count_tokens", None)
        if count is not None:
            return int(count(kind, instances))
        texts = ["".join(part for part in i.arguments if isinstance(part, str)).encode("utf-8", "replace") for i in instances]  # fmt: skip
        return -(-count_distinct([list(text) for text in texts]) // BYTES_PER_TOKEN)

    def seconds(self) -> float | None:
        """From the speed on the first few requests: prompt tokens and, at most, generated ones."""
        if not self.first:
            return 0.0
        kind = self.first[0].request_type
        sample = [instance for instance in self.first if instance.request_type == kind]
        before = getattr(self.lm.usage, "generated_tokens", 0)
        began = time.perf_counter()
        for _ in self.lm.stream(kind, sample, [0] * len(sample)):
            pass
        took = time.perf_counter() - began
        tokens = self._tokens(kind, sample) + getattr(self.lm.usage, "generated_tokens", 0) - before
        return took / max(tokens, 1) * (self.distinct + self.generated)
