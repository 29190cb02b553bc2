"""How fast a server is asked: requests a second of both harnesses and of bare aiohttp, on one stub, in one run.

    python benchmarks/servers.py --rival PYTHON [--seconds 1.5] [--large 400000]
    python benchmarks/servers.py --cells "chat, 64 at once, 0 ms" --repeats 5      some cells only, and nothing is written

The stub (`_server_stub.py`) runs in a process of its own and answers from prepared bytes after 0, 50 or 200 ms; 64, 512 or
2,048 requests are under way. Generation, chat, and the log-likelihoods of choices with echoed prompts of 2 and 100 kB. The
ceiling is aiohttp alone, which writes requests and reads bytes. Then: one request in twenty refused or cut, and the
memory of many requests.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import product
from operator import itemgetter
from pathlib import Path
from typing import Any

from _results import markdown_table, write_section

HERE = Path(__file__).parent
KINDS = {
    "generation": ("generation", 64),
    "chat": ("chat", 64),
    "echo, 2 kB": ("echo", 40),
    "echo, 100 kB": ("echo", 2080),
}
SPEED = {"generation": 2500, "chat": 2500, "echo, 2 kB": 2500, "echo, 100 kB": 1500}
"""Requests a second that a client may reach, to choose how many to ask for."""
CONCURRENT = (64, 512, 2048)
DELAYS = (0.0, 0.05, 0.2)
Cell = dict[str, Any]


@contextmanager
def stub(delay: float, tokens: int, *more: str) -> Iterator[str]:
    """The address of a server that lives as long as the block."""
    command = [sys.executable, str(HERE / "_server_stub.py"), "--delay", str(delay), "--tokens", str(tokens), *more]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/v1"
    finally:
        process.stdin.close()
        process.wait()


class Client:
    """One side in a process of its own, which asks one cell after the other."""

    def __init__(self, side: str, python: str) -> None:
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"}
        self.side = side
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            [python, str(HERE / "_server_client.py"), side],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=environment,
        )

    def ask(self, cell: Cell) -> Cell:
        """What the cell took."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(cell) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("CELL "):
                found: Cell = json.loads(line[5:])
                if found["answered"] != cell["requests"]:
                    raise SystemExit(f"{self.side} answered {found['answered']} of {cell['requests']}")
                return found
        self._errors.seek(0)
        raise SystemExit(f"{self.side} failed:\n{self._errors.read()[-3000:]}")

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def how_many(name: str, concurrent: int, delay: float, seconds: float) -> int:
    """As many as take about so long, and at least four round trips; one where replies are large."""
    reachable = min(SPEED[name], concurrent / delay) if delay else SPEED[name]
    trips = 1 if SPEED[name] < 2000 else 4
    return max(trips * concurrent, int(reachable * seconds)) // 4 * 4


def measure_cells(arguments: argparse.Namespace, folder: str) -> list[list[str]]:
    rows = []
    pythons = {"bare": sys.executable, "assay": sys.executable}
    if arguments.rival:
        pythons["lm_eval"] = arguments.rival
    with ExitStack() as stack:
        clients = [Client(side, python) for side, python in pythons.items()]
        for client in clients:
            stack.callback(client.close)
        for (name, (kind, tokens)), delay in product(KINDS.items(), DELAYS):
            wanted = [c for c in CONCURRENT if is_wanted(title_of(name, c, delay), arguments.cells)]
            if not wanted:
                continue
            with stub(delay, tokens) as url:
                cell: Cell = {"kind": kind, "url": url, "tokens": tokens, "folder": folder}
                for client in clients:  # imports are no part of a request
                    client.ask({**cell, "concurrent": 8, "requests": 64})
                for concurrent in wanted:
                    asked = how_many(name, concurrent, delay, arguments.seconds)
                    cell |= {"concurrent": concurrent, "requests": asked}
                    rows.append(row_of(name, delay, cell, take_turns(clients, cell, arguments.repeats)))
                    print(" · ".join(rows[-1]), flush=True)
    return rows


def take_turns(clients: list[Client], cell: Cell, repeats: int) -> dict[str, Cell]:
    """The fastest of each side, because noise only ever adds."""
    rounds = [{client.side: client.ask(cell) for client in clients} for _ in range(repeats)]
    return {client.side: min((taken[client.side] for taken in rounds), key=itemgetter("seconds")) for client in clients}


def title_of(name: str, concurrent: int, delay: float) -> str:
    return f"{name}, {concurrent:,} at once, {delay * 1000:.0f} ms"


def is_wanted(title: str, cells: list[str] | None) -> bool:
    return cells is None or any(title.startswith(begin) for begin in cells)


def row_of(name: str, delay: float, cell: Cell, taken: dict[str, Cell]) -> list[str]:
    requests = cell["requests"]
    rate = {side: requests / found["seconds"] for side, found in taken.items()}
    ideal = requests * delay / cell["concurrent"]
    rival = taken.get("lm_eval")
    return [
        title_of(name, cell["concurrent"], delay),
        f"{requests:,}",
        f"{rate['assay']:,.0f}",
        f"{rate['lm_eval']:,.0f}" if rival else "",
        f"{rate['assay'] / rate['lm_eval']:.2f}×" if rival else "",
        f"{rate['bare']:,.0f}",
        f"{rate['assay'] / rate['bare']:.2f}",
        f"{ideal / taken['assay']['seconds']:.2f}" if delay else "",
        *(
            f"{1000 * taken[side]['processor'] / requests:.2f}" if side in taken else ""
            for side in ("assay", "lm_eval", "bare")
        ),
    ]


def measure_faults(seconds: float) -> list[list[str]]:
    """The same generations with and without one request in twenty refused (429, 503) or cut."""
    rows = []
    for concurrent, delay in ((64, 0.05), (512, 0.05), (512, 0.2)):
        cell = {"kind": "generation", "tokens": 64, "concurrent": concurrent}
        cell["requests"] = 5 * how_many("generation", concurrent, delay, seconds)
        rate = {}
        for faults in (0.0, 0.05):
            with stub(delay, 64, "--faults", str(faults), "--count") as url:
                with closing(Client("assay", sys.executable)) as client:
                    found = client.ask({**cell, "url": url})
                rate[faults] = cell["requests"] / found["seconds"]
                with urllib.request.urlopen(f"{url}/counts") as reply:
                    counts = json.load(reply)
            if not cell["requests"] == found["answered"] == counts["answered"] == counts["distinct"]:
                raise SystemExit(f"not each was answered once: {cell['requests']} asked, {found}, {counts}")
        shown = f"{concurrent} at once, {delay * 1000:.0f} ms"
        rows.append(
            [
                shown,
                f"{cell['requests']:,}",
                f"{rate[0.0]:,.0f}",
                f"{rate[0.05]:,.0f}",
                f"{rate[0.05] / rate[0.0]:.2f}",
                "0.80",
            ]
        )
        print(" · ".join(rows[-1]), flush=True)
    return rows


TASK = """
task: bench_server
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/test.jsonl}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{question}}}}"
doc_to_target: "42"
generation_kwargs: {{until: ["\\n\\n"], do_sample: false, max_gen_toks: 32}}
metric_list: [{{metric: exact_match}}]
"""


def measure_runs(sizes: list[int]) -> list[list[str]]:
    """Whole runs, from the command to the results: store, scores and samples included."""
    from overhead import measure

    rows = []
    for size in sizes:
        with tempfile.TemporaryDirectory() as name, stub(0.0, 64) as url:
            folder = Path(name)
            (folder / "task.yaml").write_text(TASK.format(folder=folder))
            with open(folder / "test.jsonl", "w", encoding="utf-8") as file:
                file.writelines(json.dumps({"question": f"Question {i}: " + "word " * 60}) + "\n" for i in range(size))
            command = [sys.executable, "-m", "assay", "run", "--model", "local-completions", "--tasks", "bench_server"]
            command += [
                "--model_args",
                f"base_url={url},model=stub",
                "--include_path",
                name,
                "--run_dir",
                f"{name}/run",
            ]
            cost = measure(command, {"ASSAY_HOME": f"{name}/home", "HF_DATASETS_CACHE": f"{name}/cache", "CI": "true"})
        rows.append(
            [f"{size:,}", f"{cost.seconds:.1f} s", f"{1000 * cost.processor / size:.2f}", f"{cost.megabytes:.0f} MB"]
        )
        print(" · ".join(rows[-1]), flush=True)
    return rows


def main() -> str:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rival", help="interpreter with lm-eval installed")
    parser.add_argument("--seconds", type=float, default=1.5, help="about how long a cell takes")
    parser.add_argument("--large", type=int, default=400_000, help="requests of the largest run")
    parser.add_argument("--cells", action="append", metavar="BEGIN", help="only cells whose title begins so")
    parser.add_argument("--repeats", type=int, default=1, help="the fastest of each side counts")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cells = measure_cells(arguments, folder)
    header = ["requests", "asked", "assay, a second", "lm-evaluation-harness", "faster", "bare aiohttp", "share of it"]
    header += ["share of the ideal", "processor, ms: assay", "lm-evaluation-harness", "bare"]
    body = markdown_table(header, cells)
    if arguments.cells:
        return body
    body += "\n\nAt least asked: 1.00× of lm-evaluation-harness, 0.70 of bare aiohttp. The ideal is requests × delay / at once.\n\n"
    header = ["5 % of 429, 503 and cut connections", "asked", "without, a second", "with", "share", "at least"]
    body += markdown_table(header, measure_faults(arguments.seconds))
    body += "\n\nEach request was answered once.\n\n"
    runs = measure_runs([4_000, arguments.large])
    body += markdown_table(["whole runs of generations", "wall", "processor, ms a request", "memory"], runs)
    body += f"\n\nLoad of the machine at the end: {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores.\n"
    write_section("Servers", body)
    return body


if __name__ == "__main__":
    print(main())
