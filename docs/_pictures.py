"""Makes the pictures of docs/images anew, from runs that it makes itself in a temporary directory.

    python docs/_pictures.py                      # all of them
    python docs/_pictures.py demo.svg rank.png    # these

It needs Chromium and, once, the model of `assay demo` (93 MB), and takes a few minutes on two cores. `rank.png` shows published scores: 29 models on MMLU-Pro in an
npz file, whose path is `--scores` or ASSAY_MMLU_PRO_SCORES; without it the picture stays as it is. `prefix-tree.svg` is drawn
by hand. The small models and tasks are those of the tests.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
MODEL = ["--model", "hf", "--model_args", "pretrained=smollm2-135m"]
SCORES = "ASSAY_MMLU_PRO_SCORES"
sys.path.insert(0, str(ROOT))


@dataclass(frozen=True)
class Workshop:
    """A directory for runs, a browser to photograph them, and where scores of other people's models are."""

    folder: Path
    browser: Any
    scores: Path | None

    def assay(self, *words: str, cwd: Path | None = None, codes: tuple[int, ...] = (0,)) -> str:
        """What a verb of the command line prints."""
        done = subprocess.run(
            [sys.executable, "-m", "assay", *words], cwd=cwd or self.folder, stdout=subprocess.PIPE, text=True
        )
        if done.returncode not in codes:
            raise SystemExit(f"assay {' '.join(words)}: exit code {done.returncode}\n{done.stdout}")
        return done.stdout

    @cached_property
    def demo(self) -> Path:
        """What `assay demo` runs, with a store of its own: the picture shows a first run."""
        self.assay("run", *MODEL, "--tasks", "demo", "--store", "demo.sqlite", "--run_dir", "runs/demo")
        return self.folder / "runs" / "demo"

    @cached_property
    def judged(self) -> Path:
        """The open questions of the demo, their answers rated by two judges."""
        (self.folder / "judge.py").write_text(JUDGE)
        catalog = ROOT / "src" / "assay" / "catalog" / "demo"
        (self.folder / "open_answers.yaml").write_text(OPEN_ANSWERS.format(catalog=catalog))
        labels = (catalog / "data" / "open_labels.jsonl").read_text(encoding="utf-8")
        (self.folder / "open_labels.jsonl").write_text(
            labels.replace('"demo_open"', '"open_answers"'), encoding="utf-8"
        )
        roles = [f"--role={name}=judge.py:Judge,share={share}" for name, share in (("judge", 0.5), ("second", 1.0))]
        self.assay("run", *MODEL, "--tasks", "open_answers", "--include_path", ".", *roles, "--run_dir", "judged")
        return self.folder / "judged"

    @contextmanager
    def page(self, address: str, width: int, height: int) -> Iterator[Any]:
        page = self.browser.new_page(viewport={"width": width, "height": height})
        found = page.goto(address)
        if found is not None and found.status >= 400:
            raise SystemExit(f"{address}: {found.status}")
        yield page
        page.close()

    def photograph(self, name: str, address: str, width: int, height: int | None = None) -> None:
        """The top of a page; without a height, all of it."""
        with self.page(address, width, height or 200) as page:
            save(name, page, full=height is None)


OPEN_ANSWERS = """
include: {catalog}/open.yaml
task: open_answers
scorer: {{type: judge, kind: correct, question: "{{{{question}}}}", judges: [judge, second], labels: open_labels.jsonl}}
"""
JUDGE = '''
"""Counts which words of the right answer are in the answer: lenient if a share of them is enough."""
import re

from assay.instance import Response
from assay.models import LM

FENCED = re.compile(r"\\[(\\w+) ([0-9a-f]{16})\\]\\n(.*?)\\n\\[end of \\1 \\2\\]", re.DOTALL)


class Judge(LM):
    def __init__(self, share=1.0, model=None):
        self.share = float(share)

    def generate_until(self, requests):
        return [Response(self.verdict(request.arguments[0]), "stop") for request in requests]

    def verdict(self, prompt):
        texts = {name: text for name, _, text in FENCED.findall(prompt)}
        wanted, given = ({word.lower() for word in re.findall(r"\\w+", texts[name])} for name in ("reference", "answer"))
        found = len(wanted & given) / len(wanted)
        how_much = "all" if found == 1 else "none" if found == 0 else f"{found:.0%}"
        verdict = "correct" if found >= self.share else "incorrect"
        return f"The answer has {how_much} of the words of the right answer.\\n\\n<verdict>{verdict}</verdict>"

    def loglikelihood(self, requests):
        raise NotImplementedError

    loglikelihood_rolling = loglikelihood

    def fingerprint(self):
        return f"words {self.share}"
'''


def demo_svg(shop: Workshop) -> None:
    from rich.console import Console

    from assay.results import RunResult
    from assay.show import fitted, score_table

    # So narrow that a phone, which shows the picture 360 pixels wide, still has letters that can be read: the first
    # metric of each task stays, with its interval.
    table = score_table(RunResult.load(shop.demo))
    kept = [
        at for at in table.shown() if table.columns[at].name in ("task", "metric", "value", "± stderr", "95 % interval")
    ]
    rows = [row for row in table.rows if not row.cells[kept[0]].is_repeated]  # the first metric of each
    narrow = [replace(row, cells=tuple(row.cells[at] for at in kept), note="") for row in rows]
    console = Console(record=True, width=80, file=io.StringIO(), force_terminal=True)
    console.print("$ make demo", style="dim", highlight=False)
    console.print(fitted(replace(table, columns=tuple(table.columns[at] for at in kept), rows=tuple(narrow))))
    drawn = console.export_svg(title="make demo", unique_id="demo")
    # Without the web fonts that Rich names: a picture fetches nothing.
    start, end = drawn.index("@font-face"), drawn.index(".demo-matrix")
    drawn = (drawn[:start] + drawn[end:]).replace("Fira Code", "ui-monospace")
    (IMAGES / "demo.svg").write_text(drawn, encoding="utf-8")


def viewer_run(shop: Workshop) -> None:
    with viewer(shop.demo) as address, shop.page(f"{address}/run/{run_ids(address)[0]}", 1280, 1345) as page:
        page.locator("tr", has_text="demo_english").locator("button").first.click()  # its members are shown above
        page.mouse.move(0, 0)
        page.wait_for_timeout(300)  # until its arrow has turned
        save("viewer-run.png", page)


def viewer_compare(shop: Workshop) -> None:
    from tests.view import material

    folder = shop.folder / "two"
    benchmark = material.write_benchmark(made(shop.folder / "benchmark"))
    for name, skill in (("blunt-1b", 0.5), ("sharp-7b", 0.62)):
        material.make_run(benchmark, folder / name, name, skill)
    with viewer(folder) as address:
        both = "&".join(f"run={run}" for run in run_ids(address))
        with shop.page(f"{address}/compare?{both}", 1280, 860) as page:
            page.wait_for_selector(".findings table, main table")
            save("viewer-compare.png", page)


def drift(shop: Workshop) -> None:
    words = ["drift", "smollm2-135m", "smollm2-135m", "--b_args", "dtype=bfloat16", "--max_tokens", "700"]
    print(shop.assay(*words, "-o", "drift.html"))
    shop.photograph("drift.png", (shop.folder / "drift.html").as_uri(), 1280)


def explained(shop: Workshop) -> None:
    """A model that dislikes examples and a stop string, a filter that misses numbers, and 50 docs left out."""
    from tests.analyses import test_explain as known

    from assay.analyses.explain import explain, findings

    folder = made(shop.folder / "explain")
    model = known.Fragile([known.CAUSES[cause][0] for cause in ("shots", "stop strings")])
    changed = {**known.CAUSES["shots"][1], **known.CAUSES["stop strings"][1]}
    changed["filter_list"] = known.regex_filter("is (\\d*[0-6])\\.")
    a = known.sums(folder, "a", model)
    b = known.sums(folder, "b", model, changed, limit=150)
    found = findings(explain(a, b, lm=model))
    print(found.to_text())
    found.save(folder / "explain.html")
    shop.photograph("explain.png", (folder / "explain.html").as_uri(), 1240, 434)


def rank(shop: Workshop) -> None:
    if shop.scores is None:
        print(f"rank.png stays as it is: it needs the scores of 29 models on MMLU-Pro (--scores FILE, or {SCORES}).")
        return
    import numpy as np

    with np.load(shop.scores) as found:
        drawn = np.random.default_rng(1).choice(len(found["question_id"]), 500, replace=False)
        table = {"runs": found["models"], "docs": found["question_id"][drawn], "scores": found["right"][:, drawn]}
    np.savez(shop.folder / "MMLU-Pro, 500 questions.npz", **table)
    print(shop.assay("rank", "MMLU-Pro, 500 questions.npz", "-o", "rank.html"))
    shop.photograph("rank.png", (shop.folder / "rank.html").as_uri(), 1240, 1080)


def judged_sample(shop: Workshop) -> None:
    with viewer(shop.judged) as address:
        (run,) = run_ids(address)
        shop.photograph("judged-sample.png", f"{address}/sample/{run}/3/open_answers", 1280, 1500)


def label(shop: Workshop) -> None:
    from assay.results import RunDirectory
    from assay.view import LabelBook, create_label_app, draw_items

    book = LabelBook(shop.folder / "labels.jsonl", draw_items(RunDirectory.open(shop.judged), 40))
    with (
        served(create_label_app(book, "secret")) as address,
        shop.page(f"{address}/secret", 1280, 580) as page,
    ):
        page.keyboard.press("1")
        page.wait_for_function("document.title.includes('1/')")
        save("label.png", page)


def ci_comments(shop: Workshop) -> None:
    folder = shop.folder / "ci"
    shutil.copytree(ROOT / "examples" / "ci", folder)
    shop.assay("ci", "--record", cwd=folder)
    subprocess.run(["bash", "break-template.sh"], cwd=folder, check=True)
    for name, code, words in (
        ("passed", 0, []),
        ("failed", 1, ["--file", "worsened.yaml"]),
        ("cannot-tell", 4, ["--docs", "12"]),
    ):
        shop.assay("ci", *words, cwd=folder, codes=(code,))
        page = folder / f"{name}.html"
        page.write_text(as_comment((folder / "assay-ci" / "comment.md").read_text(encoding="utf-8")), encoding="utf-8")
        shop.photograph(f"ci-{name}.png", page.as_uri(), 1020)


def as_comment(markdown: str) -> str:
    """A comment as a pull request shows it."""
    from markdown_it import MarkdownIt

    body = MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown)
    body = body.replace("<details>", "<details open>")
    for sign, shown, colour in (("✅", "✔", "#1a7f37"), ("❌", "✘", "#cf222e"), ("❔", "?", "#9a6700")):
        body = body.replace(sign, f'<b style="color: {colour}">{shown}</b>')  # not every machine has a font of emoji
    return f"""<!doctype html><meta charset="utf-8"><style>
body {{ font: 14px/1.15 "Liberation Sans", Arial, sans-serif; color: #1f2328; margin: 16px }}
.comment {{ border: 1px solid #d1d9e0; border-radius: 6px }} .who {{ background: #f6f8fa; color: #59636e; padding: 9px 16px; border-bottom: 1px solid #d1d9e0; border-radius: 6px 6px 0 0 }}
.body {{ padding: 2px 16px 10px }} h1, h2, h3 {{ font-size: 17px }} table {{ border-collapse: collapse }} th, td {{ border: 1px solid #d1d9e0; padding: 6px 10px; vertical-align: top }} tbody tr:nth-child(2n) {{ background: #f6f8fa }}
code {{ background: #f0f1f2; padding: 1px 4px; border-radius: 4px }} summary {{ margin: 12px 0 }}
</style><div class="comment"><div class="who"><b>github-actions</b> bot commented</div><div class="body">{body}</div></div>"""


PICTURES: dict[str, Callable[[Workshop], None]] = {
    "demo.svg": demo_svg,
    "viewer-run.png": viewer_run,
    "viewer-compare.png": viewer_compare,
    "drift.png": drift,
    "explain.png": explained,
    "rank.png": rank,
    "judged-sample.png": judged_sample,
    "label.png": label,
    "ci-passed.png": ci_comments,
    "ci-failed.png": ci_comments,
    "ci-cannot-tell.png": ci_comments,
}


def made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def save(name: str, page: Any, *, full: bool = False) -> None:
    page.screenshot(path=str(IMAGES / name), full_page=full)
    print(name)


def run_ids(address: str) -> list[str]:
    from urllib.request import urlopen

    lines = urlopen(f"{address}/?download=jsonl").read().decode().splitlines()
    return [row["id"] for row in sorted(map(json.loads, lines), key=lambda row: row["model"])]


@contextmanager
def viewer(runs: Path) -> Iterator[str]:
    from assay.view import create_app

    with tempfile.TemporaryDirectory() as scratch, served(create_app([runs], scratch=Path(scratch))) as address:
        yield address


@contextmanager
def served(app: Any) -> Iterator[str]:
    """The address of an application on a free port, in a thread."""
    import uvicorn

    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join(10)


def main() -> None:
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="pictures to make; all without")
    parser.add_argument("--scores", type=Path, default=os.environ.get(SCORES), help="npz file for rank.png")
    given = parser.parse_args()
    unknown = [name for name in given.names if name not in PICTURES]
    if unknown:
        parser.error(f"no picture is called {unknown[0]}; there are {', '.join(PICTURES)}")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    scores = given.scores.resolve() if given.scores else None
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        shop = Workshop(Path(folder), browser, scores)
        for make in dict.fromkeys(PICTURES[name] for name in given.names or PICTURES):
            make(shop)
        browser.close()


if __name__ == "__main__":
    main()
