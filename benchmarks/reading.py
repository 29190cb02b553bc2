"""How long a log of inspect takes to open, and in how much memory.

    python benchmarks/reading.py [SAMPLES …]

A log is made of the samples of a bundled genuine one, repeated. The limit unpacks its members by `zipfile` and parses them by
orjson, and does nothing else; `open_run` reads every sample into columns and estimates every score. Both run in processes of
their own, one after the other.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from assay.finished.inspect.archive import Archive

GENUINE = Path(__file__).parents[1] / "tests/finished/genuine/inspect/good"
MEASURED = """
import json, resource, sys, time
from pathlib import Path
{imports}
path = Path(sys.argv[1])
began = time.perf_counter()
{work}
took = time.perf_counter() - began
print(json.dumps([took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""
LIMIT = MEASURED.format(
    imports="import orjson, zipfile",
    work="with zipfile.ZipFile(path) as archive:\n    for name in archive.namelist():\n        orjson.loads(archive.read(name))",
)
OURS = MEASURED.format(
    imports="from assay.finished import open_run\nopen_run(Path(sys.argv[2]))", work="open_run(path)"
)


def make_log(path: Path, count: int) -> None:
    with Archive(next(GENUINE.glob("*.eval"))) as source:
        members = {name: source.read(number) for number, name in enumerate(source.names)}
    samples = [json.loads(content) for name, content in members.items() if name.startswith("samples/")]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in members.items():
            if not name.startswith("samples/"):
                archive.writestr(name, content)
        for number in range(count):
            sample = {**samples[number % len(samples)], "id": number, "epoch": 1}
            archive.writestr(f"samples/{number}_epoch_1.json", json.dumps(sample))


def measure(code: str, path: Path) -> tuple[float, float]:
    """Seconds and MB, of the best of three processes."""
    warm = next(GENUINE.glob("*.eval"))
    runs = [
        json.loads(subprocess.run([sys.executable, "-c", code, path, warm], stdout=subprocess.PIPE, check=True).stdout)
        for _ in range(3)
    ]
    seconds, memory = min(runs)
    return seconds, memory


def main() -> None:
    counts = [int(word) for word in sys.argv[1:]] or [10_000, 100_000]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.eval"
        print("| samples | limit, s | open_run, s | ratio | peak memory, MB |\n|---|---|---|---|---|")
        for count in counts:
            make_log(path, count)
            limit, ours = measure(LIMIT, path), measure(OURS, path)
            print(f"| {count:,} | {limit[0]:.2f} | {ours[0]:.2f} | {ours[0] / limit[0]:.2f}× | {ours[1]:.0f} |")


if __name__ == "__main__":
    main()
