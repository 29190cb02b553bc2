"""Two runs of a million docs in fifty tasks, compared: seconds and memory.

    python benchmarks/compare.py [--docs 1000000] [--tasks 50] [--keep DIR]

The runs are written first (not measured); then `assay compare --json` runs as a process of its own, and its wall time
and peak memory are printed beside the limits of 20 s and 2 GB.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from _results import markdown_table, write_section

LIMIT_SECONDS = 20.0
LIMIT_GB = 2.0
METRICS = ("acc", "acc_norm", "score")


def write_run(path: Path, tasks: int, docs: int, seed: int) -> None:
    """A run directory as `assay run` leaves it; scores of both runs follow the same hardness of docs."""
    (path / "samples").mkdir(parents=True)
    estimates: dict[str, dict[str, object]] = {}
    for t in range(tasks):
        name = f"task_{t:02d}"
        shared, own = np.random.default_rng(t), np.random.default_rng((seed, t))
        hardness = shared.beta(2, 2, docs)
        columns = {
            "acc": (own.random(docs) < hardness).astype(float),
            "acc_norm": (own.random(docs) < hardness).astype(float),
            "score": np.clip(hardness + own.normal(0, 0.1, docs), 0, 1),
        }
        write_samples(path / "samples" / f"{name}.parquet", t, columns)
        estimates[name] = {f"{m},none": _entry(v.mean(), v.std() / docs**0.5, docs) for m, v in columns.items()}
    children = [{"name": name, "weight": 1 / tasks, "value": 0.5} for name in estimates]
    made_of = {"aggregator": "mean", "children": children, "missing": {}, "filtered_out": []}
    roots = {f"{m},none": {**_entry(0.5, 0.01, docs * tasks), **made_of} for m in METRICS}
    tree = [{"depth": 0, "name": "all", "alias": "all", "kind": "group"}]
    tree += [{"depth": 1, "name": name, "alias": name, "kind": "task"} for name in estimates]
    results = {
        "results": {},
        "configs": {name: {"task": name} for name in estimates},
        "higher_is_better": {name: dict.fromkeys(METRICS, True) for name in estimates},
        "n-shot": {},
        "model_name": f"model {seed}",
        "config": {"model": "made"},
        "assay": {
            "estimates": {**estimates, "all": roots},
            "tree": tree,
            "health": {},
            "samples": {name: f"samples/{name}.parquet" for name in estimates},
            "model": {"name": f"model {seed}"},
        },
    }
    (path / "results.json").write_text(json.dumps(results))
    (path / "run.json").write_text(json.dumps({"format": 1, "status": "finished"}))


def write_samples(path: Path, task: int, metrics: dict[str, np.ndarray]) -> None:
    n = len(metrics["acc"])
    words = np.random.default_rng(task).integers(0, 256, (n, 32), dtype=np.uint8)
    hashes = pa.array([row.tobytes().hex() for row in words])
    text = pa.array([f'{{"question": "{"word " * 30}{i}"}}' for i in range(n)])
    short = pa.array(['["an answer"]'] * n)
    table = pa.table(
        {
            "doc_id": pa.array(np.arange(n)),
            "doc_hash": hashes,
            "request_hash": hashes,
            "filter": pa.array(["none"] * n),
            "doc": text,
            "target": short,
            "arguments": text,
            "resps": short,
            "filtered_resps": short,
            "stops": pa.nulls(n, pa.string()),
            "other": pa.nulls(n, pa.string()),
            "flags": pa.array([[]] * n, pa.list_(pa.string())),
            "cluster": pa.nulls(n, pa.string()),
            **{f"metric:{name}": pa.array(values) for name, values in metrics.items()},
        }
    )
    pq.write_table(table, path, compression="zstd", row_group_size=4096)


def _entry(value: float, stderr: float, n: int) -> dict[str, object]:
    low, high = value - 1.96 * stderr, value + 1.96 * stderr
    return {
        "value": float(value),
        "stderr": float(stderr),
        "low": float(low),
        "high": float(high),
        "n": n,
        "method": "made",
        "undefined": None,
    }


def measure(a: Path, b: Path) -> tuple[float, float, float, dict[str, object]]:
    """Wall seconds, processor seconds and peak GB of one `assay compare`."""
    command = [sys.executable, "-c", "from assay.cli import main; main()", "compare", str(a), str(b), "--json"]
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, check=True, env={**os.environ, "COLUMNS": "200"})
    seconds = time.perf_counter() - began
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024**2, json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", type=int, default=1_000_000, help="docs of each run, over all tasks")
    parser.add_argument("--tasks", type=int, default=50)
    parser.add_argument("--keep", type=Path, help="write the runs here and keep them")
    given = parser.parse_args()
    where = given.keep or Path(tempfile.mkdtemp(prefix="compare-"))
    try:
        for seed in (1, 2):
            if not (where / str(seed)).exists():
                write_run(where / str(seed), given.tasks, given.docs // given.tasks, seed)
        seconds, processor, peak, found = measure(where / "1", where / "2")
    finally:
        if given.keep is None:
            shutil.rmtree(where)
    rows = found["rows"]
    assert isinstance(rows, list)
    table = markdown_table(
        ("two runs", "measured", "limit"),
        [
            ("seconds (wall)", f"{seconds:.1f}", f"{LIMIT_SECONDS:.0f}"),
            ("seconds (processor)", f"{processor:.1f}", ""),
            ("GB", f"{peak:.2f}", f"{LIMIT_GB:.0f}"),
        ],
    )
    load = f"Load of the machine while measuring: {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores."
    head = f"Two runs of {given.docs:,} docs in {given.tasks} tasks, {len(rows)} rows compared with `assay compare --json`."
    print(head, table, load, sep="\n\n")
    if given.docs == 1_000_000:
        write_section("Comparing runs", f"{head}\n\n{table}\n\n{load}")


if __name__ == "__main__":
    main()
