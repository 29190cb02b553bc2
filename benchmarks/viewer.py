"""How fast `assay view` answers on a run of a million samples, and how much memory it takes.

    python benchmarks/viewer.py [--samples 1000000] [--keep DIR]

Two runs of a million samples are generated (a choice task, and a generation task with two filters). Every page is then asked for over
HTTP: first cold, then five times with varying parameters. Besides the wall time the table shows the server's CPU time per request, which
neighbours on the machine do not change.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from _results import markdown_table, write_section
from assay.results import Health, MetricKey, RunResult, SampleRow, SampleWriter, Score, TaskResult
from assay.stats import mean_estimate

WORDS = "time year way day thing world life hand part child eye place work week case point company number group problem fact river energy cell force theory market price water plant animal music light heat charge speed mass law state power".split()  # noqa: SIM905
CLOCK = os.sysconf("SC_CLK_TCK")


def sentences(rng: random.Random, count: int, words: int) -> list[str]:
    return [" ".join(rng.choices(WORDS, k=words)).capitalize() for _ in range(count)]


def choice_task(path: Path, docs: int, seed: int) -> list[float]:
    """Four choices a doc; the docs are the same for every seed, the answers are not."""
    shared, own = random.Random(0), random.Random(seed)
    questions, options = sentences(shared, 5000, 28), sentences(shared, 2000, 4)
    writer, scores = SampleWriter(path), []
    for i in range(docs):
        question = f"{questions[shared.randrange(5000)]} {i}?"
        choices = [options[shared.randrange(2000)] for _ in range(4)]
        gold = shared.randrange(4)
        lls = [-own.expovariate(0.15) for _ in range(4)]
        if own.random() < 0.45:
            lls[gold] = max(lls) + 0.7
        right = float(max(range(4), key=lls.__getitem__) == gold)
        key = hashlib.sha256(question.encode()).hexdigest()
        arguments = [[f"Question: {question}\nAnswer:", f" {choices[0]}"], *([None, f" {c}"] for c in choices[1:])]
        pairs = [[ll, False] for ll in lls]
        writer.add(
            SampleRow(
                i,
                key,
                key,
                "none",
                json.dumps({"question": question, "choices": choices, "answer": gold}),
                str(gold),
                json.dumps(arguments),
                json.dumps([[p] for p in pairs]),
                json.dumps(pairs),
                metrics={"acc": right, "acc_norm": right},
                flags=("tied",) if i % 97 == 0 else (),
            )
        )
        scores.append(right)
    writer.close()
    return scores


def text_task(path: Path, docs: int, seed: int) -> list[float]:
    shared, own = random.Random(1), random.Random(seed)
    questions, steps = sentences(shared, 5000, 40), sentences(shared, 3000, 45)
    writer, scores = SampleWriter(path), []
    for i in range(docs):
        question = f"{questions[shared.randrange(5000)]} {i}?"
        answer, said = str(i % 1000), str(i % 1000 if own.random() < 0.6 else own.randrange(1000))
        text = f"{steps[own.randrange(3000)]}. " + (f"#### {said}" if own.random() < 0.8 else f"It is {said}.")
        key = hashlib.sha256(question.encode()).hexdigest()
        for name, found in (("strict-match", said if "####" in text else "[invalid]"), ("flexible-extract", said)):
            score = float(found == answer)
            flags = ("unparsed",) if found == "[invalid]" else ()
            writer.add(
                SampleRow(
                    i,
                    key,
                    key,
                    name,
                    json.dumps({"question": question, "answer": answer}),
                    json.dumps(answer),
                    json.dumps([[question, {"until": ["\n\n"]}]]),
                    json.dumps([[text]]),
                    json.dumps([found]),
                    metrics={"exact_match": score},
                    flags=flags,
                )
            )
        scores.append(score)
    writer.close()
    return scores


def write_run(folder: Path, model: str, samples: int, seed: int) -> None:
    (folder / "samples").mkdir(parents=True)
    right = choice_task(folder / "samples" / "big_choice.parquet", samples * 6 // 10, seed)
    exact = text_task(folder / "samples" / "big_text.parquet", samples * 2 // 10, seed)
    tasks = {
        "big_choice": task_result("big_choice", "multiple_choice", [("acc", "none"), ("acc_norm", "none")], right),
        "big_text": task_result(
            "big_text",
            "generate_until",
            [("exact_match", "flexible-extract"), ("exact_match", "strict-match")],
            exact,
        ),
    }
    result = RunResult(tasks, roots=tuple(tasks), model={"name": model}, date=time.time(), seconds=1.0)
    result.save(folder)
    about = {"format": 1, "status": "finished", "config": {}, "model": result.model, "date": result.date}
    (folder / "run.json").write_text(json.dumps(about))


def task_result(name: str, output_type: str, keys: list[tuple[str, str]], values: list[float]) -> TaskResult:
    score = Score(mean_estimate(values), len(values), higher_is_better=True)
    return TaskResult(
        name=name,
        alias=name,
        scores={MetricKey(*key): score for key in keys},
        health=Health(docs=len(values)),
        num_fewshot=0,
        output_type=output_type,
        config={"output_type": output_type},
        sample_len=len(values),
        sample_file=f"samples/{name}.parquet",
    )


class Server:
    def __init__(self, directory: Path) -> None:
        words = [sys.executable, "-m", "assay", "view", str(directory), "--no-open"]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found, line
        self.address = found[0].rstrip("/")

    def ask(self, path: str) -> tuple[float, float, bytes]:
        """Wall seconds, CPU seconds of the server, and the answer."""
        cpu, start = self.cpu(), time.perf_counter()
        with urllib.request.urlopen(self.address + path) as answer:
            body = answer.read()
        return time.perf_counter() - start, self.cpu() - cpu, body

    def cpu(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / CLOCK

    def memory(self) -> float:
        """The most the server ever held, in MB."""
        found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{self.process.pid}/status").read_text())
        return int(found[1]) / 1024 if found else float("nan")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


def pages(a: str, b: str, choices: int, texts: int) -> dict[str, list[str]]:
    """Each page with addresses that differ, so that nothing is answered from what was kept."""
    docs = [choices * i // 7 for i in range(6)]
    return {
        "runs": ["/"] * 6,
        "run": [f"/run/{a}", f"/run/{b}"] * 3,
        "task, choices": [f"/task/{r}/big_choice?metric={m}" for r in (a, b) for m in ("acc", "acc_norm")],
        "task, generation": [
            f"/task/{r}/big_text?filter={f}" for r in (a, b) for f in ("strict-match", "flexible-extract")
        ],
        "samples, any page": [f"/samples/{a}/big_choice?page={1 + choices // 50 * i // 6}" for i in range(6)],
        "samples, wrong only": [f"/samples/{a}/big_choice?only=wrong&page={1 + 900 * i}" for i in range(6)],
        "samples, sorted by score": [
            f"/samples/{a}/big_choice?sort=metric:acc&dir=desc&page={1 + 1100 * i}" for i in range(6)
        ],
        "samples, sorted by length": [
            f"/samples/{a}/big_text?sort=length&dir=desc&page={1 + 500 * i}" for i in range(6)
        ],
        "samples, unparsed": [f"/samples/{a}/big_text?only=unparsed&page={1 + 100 * i}" for i in range(6)],
        "samples, filters disagree": [f"/samples/{a}/big_text?only=disagree&page={1 + 100 * i}" for i in range(6)],
        "samples, flips": [f"/samples/{a}/big_choice?only=flips&against={b}&page={1 + 100 * i}" for i in range(6)],
        "search, frequent": [f"/samples/{a}/big_choice?q={word}" for word in WORDS[:6]],
        "search, rare": [f"/samples/{a}/big_choice?q={docs[i] + 12345}%3F" for i in range(6)],
        "search, absent": [f"/samples/{a}/big_choice?q=absent{i}" for i in range(6)],
        "sample": [f"/sample/{a}/{doc}/big_choice" for doc in docs],
        "sample from a list": [f"/sample/{a}/{doc}/big_choice?at={doc}" for doc in docs],
        "sample beside another run": [f"/sample/{a}/{doc}/big_choice?against={b}" for doc in docs],
        "compare, while it computes": [f"/compare?run={a}&run={b}"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--keep", type=Path, help="Keep the generated runs here, and use them if they are there.")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.keep or Path(scratch)
        for model, seed in (("first", 1), ("second", 2)):
            if not (folder / model / "results.json").is_file():
                print(f"generating {args.samples:,} samples of {model} …", file=sys.stderr)
                write_run(folder / model, model, args.samples, seed)
        report(folder, args.samples)


def report(folder: Path, samples: int) -> None:
    server = Server(folder)
    rows: list[list[str]] = []
    try:
        _, _, listing = server.ask("/?download=jsonl")
        ids = {row["model"]: row["id"] for row in map(json.loads, listing.decode().splitlines())}
        a, b = ids["first"], ids["second"]
        load = os.getloadavg()[0]
        for name, paths in pages(a, b, samples * 6 // 10, samples * 2 // 10).items():
            rows.append([name, *measured([server.ask(path) for path in paths])])
            print(" · ".join(rows[-1]), flush=True)
        rows.append(compare_in_full(server, f"/compare?run={a}&run={b}"))
        memory = server.memory()
    finally:
        server.stop()
    header = ["page", "first, ms", "then, median ms", "most, ms", "processor, median ms", "size, kB"]
    about = f"Two runs of {samples:,} samples; each page asked for with addresses that differ. Load of the machine while measuring: {load:.0f} on {os.cpu_count()} cores."
    limits = f"Most memory of the server: {memory:.0f} MB (limit 400). Limit of a page: 500 ms."
    print(limits)
    write_section("Viewer", f"{about}\n\n{markdown_table(header, rows)}\n\n{limits}")


def measured(asked: list[tuple[float, float, bytes]]) -> list[str]:
    walls = [1000 * wall for wall, _, _ in asked]
    cpu = statistics.median(1000 * cpu for _, cpu, _ in asked)
    size = max(len(body) for _, _, body in asked) / 1024
    return [f"{n:.0f}" for n in (walls[0], statistics.median(walls[1:] or walls), max(walls), cpu, size)]


def compare_in_full(server: Server, path: str) -> list[str]:
    start = time.perf_counter()
    while "Comparing" in (page := server.ask(path)[2].decode()):
        time.sleep(0.5)
    waited = time.perf_counter() - start
    wall = 1000 * server.ask(path)[0]
    return [
        f"compare, once computed ({waited:.0f} s beside the server)",
        "",
        f"{wall:.0f}",
        f"{wall:.0f}",
        "",
        f"{len(page) / 1024:.0f}",
    ]


if __name__ == "__main__":
    main()
