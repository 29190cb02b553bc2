"""Error rates of `assay ci`: simulated runs of models that lie exactly at the limit of a rule, looked at as the verb does.

    python benchmarks/ci_errors.py [--times 1000]

Each run goes through the function that decides (`assay.analyses.ci.rules.decide`), look after look. Seeds are fixed: 28,000 and the cell's
number. Written to RESULTS.md, with the Monte Carlo error of each share.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.analyses.ci_simulation import ALPHA, CELLS, shares

from _results import markdown_table, write_section


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=1000)
    parser.add_argument("--keep", type=Path, default=None, help="Cells that were run already, and will be.")
    times, keep = (given := parser.parse_args()).times, given.keep
    rows = []
    for number, cell in enumerate(CELLS):
        place = None if keep is None else keep / f"{number}-{times}.json"
        if place is not None and place.exists():
            found = json.loads(place.read_text())
        else:
            found = shares(cell, times, 28_000 + number)
            if place is not None:
                place.write_text(json.dumps(found))
        wrong = found[cell.wrong]
        error = math.sqrt(max(wrong, 1 / times) * (1 - wrong) / times)
        holds = "yes" if wrong <= cell.allowed + 2 * error else "no"
        outcomes = [f"{found[word]:.1%}" for word in ("passed", "failed", "cannot tell")]
        rows.append([cell.name, *outcomes, f"{cell.wrong} {wrong:.1%} ± {error:.1%}", f"{cell.allowed:.0%}", holds])
        print(" | ".join(rows[-1]), flush=True)
    header = ["rules; what the model does", "passed", "failed", "cannot tell", "false", "allowed", "held"]
    said = (
        f"{times:,} simulated runs each of 400 docs (60 where said), looks at 32, 64, 128, 256 and 400 docs and the last look; "
        f"error rate {ALPHA:g}. ± is the Monte Carlo error; held: within twice that. A rule that does not hold passes with at most "
        f"{ALPHA:.0%}; a model that lies exactly at the limits of three rules may fail at any of them. `python benchmarks/ci_errors.py`."
    )
    write_section("Error rates of `assay ci`", f"{said}\n\n{markdown_table(header, rows)}")


if __name__ == "__main__":
    main()
