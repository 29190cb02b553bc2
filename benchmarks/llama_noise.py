"""`assay noise` on real llama.cpp servers on loopback, with different numbers of slots and threads.

    python benchmarks/llama_noise.py MODEL.gguf [--limit 40] [--keep DIR] [--only "8 slots, 2 threads"]

Needs xllamacpp. Two tasks: short answers that are generated greedily, and the log-probabilities of one letter (llama.cpp gives those
of the next token only). Every setting is a server of its own, asked five times in five orders with other numbers of requests at
once. What `--keep` holds is not asked again, so settings may be measured one by one. Written to RESULTS.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _results import markdown_table, write_section
from assay.analyses.noise_file import NoiseFile
from assay.results import read_columns

TASKS = {"demo_addition": "generated", "demo_capitals_en:letters": "letters"}


@dataclass(frozen=True)
class Setting:
    slots: int
    threads: int
    prompt_cache: bool = True
    """Whether the server keeps the prompts of a slot: then how much of a prompt is computed in one batch depends on what came before."""
    one_cache: bool = False
    """Whether all slots share one KV cache: then an answer's attention runs over its company's cells too."""

    def __str__(self) -> str:
        words = [f"{self.slots} slot{'s' * (self.slots > 1)}", f"{self.threads} thread{'s' * (self.threads > 1)}"]
        words += ["no prompt cache"] * (not self.prompt_cache) + ["one KV cache"] * self.one_cache
        return ", ".join(words)

    @property
    def company(self) -> tuple[int, ...]:
        """Requests at once: twice as many as there are slots, as many, and one."""
        return (2 * self.slots, self.slots, 1) if self.slots > 1 else (4, 2, 1)


SETTINGS = [
    Setting(4, 2),
    Setting(8, 2),
    Setting(8, 2, prompt_cache=False),
    Setting(8, 2, one_cache=True),
    Setting(1, 2),
    Setting(4, 1),
    Setting(1, 1),
]


def start(path: Path, setting: Setting) -> Any:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx, params.n_parallel, params.port, params.warmup = 1024 * setting.slots, setting.slots, 0, False
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = setting.threads
    params.cache_prompt, params.kv_unified = setting.prompt_cache, setting.one_cache
    params.verbosity = 0
    return xllamacpp.Server(params)


def measure(setting: Setting, task: str, path: Path, limit: int, replays: int, place: Path) -> None:
    if (place / "noise.json").exists():
        return
    server = start(path, setting)
    words = ["--model", "local-completions", "--model_args", "model=smollm2-135m", "--tasks", task]
    greedy = ["--gen_kwargs", "do_sample=false,temperature=0", "--repeats", "1", "--limit", str(limit)]
    company = ",".join(map(str, setting.company))
    more = ["--server", server.listening_address, "--replays", str(replays), "--concurrency", company]
    subprocess.run(
        [sys.executable, "-m", "assay", "noise", *words, *greedy, *more, "--run_dir", str(place)], check=False
    )


def row(setting: Setting, task: str, place: Path) -> list[str]:
    """Scores, flips, and what no score shows: answers that differ at all, and by how much a log-probability moved."""
    found = NoiseFile.load(place).rows[0]
    assert found.flip_share is not None
    scores = sorted({f"{score:.4f}" for score in found.scores})
    share, low, high = found.flip_share
    texts, moved = answers_that_differ(place, task)
    return [
        str(setting),
        TASKS[task],
        f"{found.n} × {len(found.scores)}",
        " to ".join(dict.fromkeys((scores[0], scores[-1]))),
        f"{len(found.flips)}",
        f"{share:.2%} [{low:.2%}, {high:.2%}]",
        f"{texts}",
        "" if moved is None else f"{moved:.2g}",
        str(found.by_doc),
        str(found.whole_run),
    ]


def answers_that_differ(place: Path, task: str) -> tuple[int, float | None]:
    """Docs whose raw answer is not the same in all replays; for letters, the largest move of a log-probability."""
    answers: dict[int, list[Any]] = {}
    for run in sorted(place.glob("replay-*")):
        for file in run.rglob("*.parquet") if run.is_dir() else ():
            for doc, text in set(read_columns(file, ["doc_id", "resps"])):
                answers.setdefault(int(doc), []).append(json.loads(text))
    differ = sum(any(each != found[0] for each in found) for found in answers.values())
    if TASKS[task] == "generated":
        return differ, None
    moves = [max(values) - min(values) for found in answers.values() for values in zip(*map(log_probabilities, found))]
    return differ, max(moves, default=0.0)


def log_probabilities(value: Any) -> list[float]:
    """Every number of a sample's answers, in order."""
    if isinstance(value, list):
        return [number for part in value for number in log_probabilities(part)]
    return [float(value)] if isinstance(value, float) else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--limit", type=int, default=40)
    parser.add_argument("--replays", type=int, default=5)
    parser.add_argument("--keep", type=Path, default=None)
    parser.add_argument("--only", help="One setting and task, as in '4 slots, 2 threads/letters'; nothing is written.")
    parser.add_argument("--kept_only", action="store_true", help="Write what --keep holds; ask nothing.")
    given = parser.parse_args()
    keep = given.keep or Path(tempfile.mkdtemp())
    cells = {f"{setting}/{short}": (setting, task) for setting in SETTINGS for task, short in TASKS.items()}
    rows = []
    for name, (setting, task) in cells.items():
        if given.only in (None, name):
            place = keep / name.replace(", ", "-").replace(" ", "-").replace("/", "-")
            if given.kept_only and not (place / "noise.json").exists():
                continue
            measure(setting, task, given.model, given.limit, given.replays, place)
            rows.append(row(setting, task, place))
            print(" | ".join(rows[-1]), flush=True)
    if given.only is None:
        header = ["server", "answers", "docs × replays", "scores", "docs that flipped", "two runs differ on"]
        header += ["answers that differ", "largest move of a log-probability", "serving, by doc ±", "whole run ±"]
        said = (
            "SmolLM2 135M (4-bit GGUF), greedy, replays in five orders with twice as many requests at once as slots, as many, and "
            "one. Intervals are 95 %. `python benchmarks/llama_noise.py MODEL.gguf`."
        )
        write_section("Serving noise of llama.cpp", f"{said}\n\n{markdown_table(header, rows)}")


if __name__ == "__main__":
    main()
