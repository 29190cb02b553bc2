"""False verdicts on a server that moves by itself, without and with the replays of `assay noise`.

    python benchmarks/serving_noise.py [--times 1000]

Two runs of one model are compared; every "better" or "worse" is false. Written to RESULTS.md.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.stats.test_serving import false_verdicts

from _results import markdown_table, write_section

CELLS: dict[str, dict[str, Any]] = {
    "±1 point": {"level": 0.6, "shift": 0.01, "own": 0.01},
    "normal, σ 1 point": {"level": 0.6, "shift": 0.01, "own": 0.01, "law": "normal"},
    "normal, σ 0.5 points, score near 0": {"level": 0.03, "shift": 0.005, "own": 0.001, "law": "normal"},
    "±1 point, score near 0": {"level": 0.03, "shift": 0.01, "own": 0.001},
    "uniform, σ 1 point": {"level": 0.6, "shift": 0.01, "own": 0.01, "law": "uniform"},
    "normal, σ 1 point, clusters of 5": {"level": 0.5, "shift": 0.01, "own": 0.01, "cluster": 5, "law": "normal"},
    "no shift, docs flip by themselves": {"level": 0.6, "shift": 0.0, "own": 0.01},
    "±1 point, clusters of 5": {"level": 0.5, "shift": 0.01, "own": 0.01, "cluster": 5},
}
"""±: always exactly so much up or down, a server in one of two states."""
REPLAYS = (3, 5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=1000)
    parser.add_argument("--keep", type=Path, default=None, help="Cells that were run already, and will be.")
    given = parser.parse_args()
    rows = []
    for number, (name, how) in enumerate(CELLS.items()):
        found = []
        for replays in REPLAYS:
            place = None if given.keep is None else given.keep / f"{number}-{replays}-{given.times}.json"
            if place is None or not place.exists():
                found.append(false_verdicts(given.times, replays=replays, **how))
                if place is not None:
                    place.write_text(json.dumps(found[-1]))
            else:
                found.append(tuple(json.loads(place.read_text())))
        rows.append([name, f"{found[0][0]:.1%}", *(f"{known:.1%}" for _, known in found)])
        print(" | ".join(rows[-1]), flush=True)
    error = math.sqrt(0.05 * 0.95 / given.times)
    said = (
        f"Two runs of one model called different, of {given.times:,} comparisons each (error rate 5 %, Monte Carlo error of that "
        f"{error:.1%}). `python benchmarks/serving_noise.py`."
    )
    header = ["runs of one model, 1,000 docs", "without", *(f"{replays} replays" for replays in REPLAYS)]
    write_section("False verdicts on a server that moves", f"{said}\n\n{markdown_table(header, rows)}")


if __name__ == "__main__":
    main()
