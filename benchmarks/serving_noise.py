"""False verdicts on a server that moves by itself, without and with the replays of `assay noise`.

    python benchmarks/serving_noise.py [--times 1000]

Two runs of one model are compared; every "better" or "worse" is false. Written to `benchmarks/serving_noise.md`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.stats.test_serving import false_verdicts

CELLS = {
    "±1 point": {"level": 0.6, "shift": 0.01, "own": 0.01},
    "±1 point, 2 % of docs flip by themselves": {"level": 0.6, "shift": 0.01, "own": 0.02},
    "±0.5 points": {"level": 0.6, "shift": 0.005, "own": 0.01},
    "no shift, docs flip by themselves": {"level": 0.6, "shift": 0.0, "own": 0.01},
    "±1 point, score near 0": {"level": 0.03, "shift": 0.01, "own": 0.001},
    "±1 point, score near 1": {"level": 0.97, "shift": 0.01, "own": 0.001},
    "±1 point, clusters of 5": {"level": 0.5, "shift": 0.01, "own": 0.01, "cluster": 5},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=1000)
    times = parser.parse_args().times
    lines = [
        "| runs of one model, 1,000 docs | without | 3 replays | 5 replays | 10 replays |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, how in CELLS.items():
        shares = [false_verdicts(times, replays=replays, **how) for replays in (3, 5, 10)]
        cells = " | ".join(f"{known:.1%}" for _, known in shares)
        lines.append(f"| {name} | {shares[0][0]:.1%} | {cells} |")
        print(lines[-1], flush=True)
    text = f"Called different, of {times:,} comparisons each (error rate 5 %).\n\n" + "\n".join(lines) + "\n"
    (Path(__file__).parent / "serving_noise.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
