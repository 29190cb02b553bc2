"""What a cluster costs and what it gives.

    python benchmarks/scaling.py [--requests 200000] [--model DIR_OR_NAME] [--docs 160]

Dispatch: the dummy model answers for almost nothing, so what is left is the cost of cutting, sending, fetching and
handing on. Speed-up: real inference on one replica with one core, then on two replicas with one core each, in one run.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import dataclass
from typing import Any

from _results import markdown_table, write_section
from assay.cluster.connection import Resources, connect
from assay.cluster.lm import ClusterLM
from assay.cluster.replica import ModelSpec
from assay.instance import Instance

WINDOW = 16_384
LIMIT_MICROSECONDS = 50.0
SPEEDUP = 1.7


@dataclass(frozen=True)
class Dispatch:
    requests: int
    wall: float
    driver: float
    """Processor time of the driver."""
    replica: float
    """Time the replica spent on answering."""

    @property
    def overhead(self) -> float:
        """Microseconds a request that the cluster adds to the model's own time."""
        return (self.wall - self.replica) / self.requests * 1e6


def choice_requests(count: int) -> list[Instance]:
    """Questions of a few thousand characters with four choices, as five-shot benchmarks have them."""
    shots = "".join(f"Question {i}: what is {i} and {i}?\nAnswer: {2 * i}\n\n" for i in range(60))
    return [
        Instance("loglikelihood", {}, (context, choice), index)
        for number in range(count // 4)
        for context in (f"{shots}Question: what is {number}?\nAnswer:",)
        for index, choice in enumerate((" A", " B", " C", " D"))
    ]


def answer(model: ClusterLM, requests: list[Instance]) -> int:
    """All requests, a window at a time, as a run asks them."""
    answered = 0
    for start in range(0, len(requests), WINDOW):
        window = requests[start : start + WINDOW]
        answered += sum(1 for _ in model.stream("loglikelihood", window, [0] * len(window)))
    return answered


def load(name: str, args: dict[str, Any], replicas: int, *, device: str | None = None) -> ClusterLM:
    """Replicas of one CPU each, all of them ready."""
    model = ClusterLM(ModelSpec(name, args, device=device), replicas, Resources(1.0, 0.0), print)
    while len(model.pool.loaded()) < replicas:
        model.pool.wait(())
    return model


def measure_dispatch(count: int) -> Dispatch:
    requests = choice_requests(count)
    model = load("dummy", {}, 1)
    answer(model, requests[:WINDOW])  # the size of shards settles
    spent = sum(worker.seconds for worker in model.pool.workers)
    wall, driver = time.perf_counter(), time.process_time()
    answered = answer(model, requests)
    wall, driver = time.perf_counter() - wall, time.process_time() - driver
    assert answered == len(requests)
    replica = sum(worker.seconds for worker in model.pool.workers) - spent
    model.close()
    return Dispatch(len(requests), wall, driver, replica)


@dataclass(frozen=True)
class Effort:
    """The best of some rounds on one set of replicas."""

    wall: float
    processor: float
    """Processor time of all replicas together."""


def measure_speedup(name: str, docs: int, rounds: int = 4) -> tuple[Effort, Effort]:
    """The same requests on one replica with one core, and on two with one core each."""
    requests = [
        Instance(
            "loglikelihood", {}, (f"Question: what is {n} and {n + 1}?\nAnswer:", f" {choice} is the number"), choice
        )
        for n in range(docs)
        for choice in range(4)
    ]
    models = [load("hf", {"pretrained": name, "dtype": "float32"}, replicas, device="cpu") for replicas in (1, 2)]
    efforts: list[list[Effort]] = [[], []]
    for _ in range(rounds):  # in turn, and the best of each: the machine may have other things to do
        for model, found in zip(models, efforts):
            before = sum(worker.processor for worker in model.pool.workers)
            began = time.perf_counter()
            answer(model, requests)
            spent = sum(worker.processor for worker in model.pool.workers) - before
            found.append(Effort(time.perf_counter() - began, spent))
    for model in models:
        model.close()
    one, two = (Effort(min(e.wall for e in es), min(e.processor for e in es)) for es in efforts)
    return one, two


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=200_000)
    parser.add_argument("--model", default="smollm2-135m", help="a model of transformers; empty: no speed-up measured")
    parser.add_argument("--docs", type=int, default=160)
    given = parser.parse_args()
    connect(None, 3)  # one replica and two beside it, of which only one or two work at a time
    found = measure_dispatch(given.requests)
    rows = [
        ["dispatch, µs a request", f"{found.overhead:.1f}", f"{LIMIT_MICROSECONDS:.0f}"],
        ["driver's processor time, µs a request", f"{found.driver / found.requests * 1e6:.1f}", ""],
        ["whole, with the dummy's own time, µs a request", f"{found.wall / found.requests * 1e6:.1f}", ""],
    ]
    if given.model:
        one, two = measure_speedup(given.model, given.docs)
        rows += [
            [
                f"two replicas over one ({given.model}, one core each)",
                f"{one.wall / two.wall:.2f}×",
                f"at least {SPEEDUP}×",
            ],
            [
                "the same by processor time: what two idle cores give",
                f"{2 * one.processor / two.processor:.2f}×",
                f"at least {SPEEDUP}×",
            ],
        ]
    table = markdown_table([f"{found.requests:,} requests", "measured", "limit"], rows)
    load = f"Load of the machine while measuring: {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores."
    print(f"{table}\n\n{load}")
    write_section("More than one machine", f"{table}\n\n{load}")


if __name__ == "__main__":
    main()
