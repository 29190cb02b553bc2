"""At how many replicas does the driver become the bottleneck? A simulation with the real policy of shard sizes.

    python benchmarks/scaling_sim.py [--request_us 12] [--shard_ms 2] [--rate 50] [--requests 2000000]

One driver hands shards out and takes answers in, one thing at a time; each costs it a fixed time a shard and a time a
request. Replicas answer at their own rates (spread by a quarter, as mixed machines do) and hold two shards each. The
simulation runs until all requests of a window are answered, window after window, as a run does.
"""

from __future__ import annotations

import argparse
import heapq
import random
from dataclasses import dataclass

from assay.cluster.lm import SHARDS_PER_REPLICA, WINDOW_PER_REPLICA
from assay.cluster.shards import shard_size
from assay.run.answerers import WINDOW_REQUESTS


@dataclass(frozen=True)
class Costs:
    request: float
    """Seconds of the driver for a request, out and back."""
    shard: float
    """Seconds of the driver for a shard, whatever its size."""
    build: float = 0.0
    """Seconds to build the prompts of one request, before a window is sent."""


@dataclass(frozen=True)
class Outcome:
    seconds: float
    busy: float
    """Share of the replicas' time that they spent answering."""
    driver: float
    """Share of the time in which the driver was at work."""


def simulate(
    replicas: int, requests: int, rate: float, costs: Costs, *, spread: float = 0.25, seed: int = 0
) -> Outcome:
    """Seconds for all requests on so many replicas, each answering about `rate` requests a second."""
    rng = random.Random(seed)
    rates = [rate * rng.uniform(1 - spread, 1 + spread) for _ in range(replicas)]
    clock = driver = worked = 0.0
    known: list[float | None] = [None] * replicas
    size = max(WINDOW_REQUESTS, WINDOW_PER_REPLICA * replicas)
    for start in range(0, requests, size):
        window = min(size, requests - start)
        clock += window * costs.build
        driver += window * costs.build
        clock, spent, answered = _window(window, rates, known, costs, clock)
        driver += spent
        worked += answered
    return Outcome(clock, worked / (clock * replicas), driver / clock)


def _window(
    remaining: int, rates: list[float], known: list[float | None], costs: Costs, clock: float
) -> tuple[float, float, float]:
    """One window: (the time at its end, time of the driver, time of all replicas)."""
    free_at = [clock] * len(rates)  # when the replica has finished all it holds
    back: list[tuple[float, int, int]] = []  # (time, replica, size) of shards under way
    held = [0] * len(rates)
    driver = worked = 0.0
    waiting = [r for _ in range(SHARDS_PER_REPLICA) for r in range(len(rates))]
    while back or remaining:
        for replica in waiting:
            if not remaining:
                break
            size = min(
                remaining, shard_size(remaining=remaining, replicas=len(rates), requests_per_second=known[replica])
            )
            spent = costs.shard / 2 + size * costs.request / 2
            clock, driver, remaining = clock + spent, driver + spent, remaining - size
            seconds = size / rates[replica]
            free_at[replica] = max(free_at[replica], clock) + seconds
            worked += seconds
            held[replica] += 1
            heapq.heappush(back, (free_at[replica], replica, size))
        at, replica, size = heapq.heappop(back)
        spent = costs.shard / 2 + size * costs.request / 2
        clock = max(clock, at) + spent
        driver += spent
        held[replica] -= 1
        known[replica] = rates[replica]
        waiting = [replica]
    return max(clock, *free_at), driver, worked


def bottleneck(rate: float, costs: Costs) -> float:
    """Replicas that one driver can feed if it does nothing else: 1 / (rate × cost of a request)."""
    return 1 / (rate * (costs.request + costs.build))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--request_us", type=float, default=12.0)
    parser.add_argument("--shard_ms", type=float, default=2.0)
    parser.add_argument("--build_us", type=float, default=40.0)
    parser.add_argument(
        "--rate", type=float, nargs="+", default=[50.0, 500.0, 5000.0], help="requests a second of one replica"
    )
    parser.add_argument("--requests", type=int, default=500_000)
    given = parser.parse_args()
    costs = Costs(given.request_us / 1e6, given.shard_ms / 1e3, given.build_us / 1e6)
    print("| requests/s of a replica | replicas | run | replicas busy | driver busy |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    for rate in given.rate:
        for replicas in (1, 2, 8, 32, 128, 512):
            found = simulate(replicas, given.requests, rate, costs)
            print(f"| {rate:g} | {replicas} | {found.seconds:,.0f} s | {found.busy:.0%} | {found.driver:.0%} |")
        print(f"| {rate:g} | the driver's limit: {bottleneck(rate, costs):,.0f} | | | |")


if __name__ == "__main__":
    main()
