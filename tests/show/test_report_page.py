"""The report and the page of a comparison: what a reader must know, in one palette, without a line of script."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

import assay
from assay.analyses.compare import compare_runs, findings
from assay.finished import open_run
from assay.instance import Instance, Message
from assay.results import RunDirectory, RunResult, pack_arguments
from assay.show import Axis, Html, run_findings
from assay.show.failures import _question
from assay.show.palette import PALETTE_FILE, palette_css

HOSTILE = "<script>alert(1)</script>"
TASKS = {
    "odd": "num_fewshot: 0\noutput_type: multiple_choice\ndoc_to_choice: c\ndoc_to_target: a\n",
    "even": "num_fewshot: 1\noutput_type: multiple_choice\ndoc_to_choice: c\ndoc_to_target: a\nfewshot_split: test\n",
    "text": "num_fewshot: 0\noutput_type: loglikelihood_rolling\ndoc_to_text: ''\ndoc_to_target: q\n"
    "metric_list: [{metric: word_perplexity}]\n",
}
GROUP = "group: all\ntask: [odd, even]\naggregate_metric_list: [{metric: acc, aggregation: harmonic_mean}]\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("report")
    rows = [{"q": f"{HOSTILE} Which is {i}?", "c": ["one", "two", "three"], "a": i % 3} for i in range(30)]
    (place / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name, more in TASKS.items():
        text = "" if "doc_to_text" in more else "doc_to_text: q\n"
        data = f"dataset_path: json\ndataset_kwargs: {{data_files: {{test: {place}/docs.jsonl}}}}\ntest_split: test\n"
        (place / f"{name}.yaml").write_text(f"task: {name}\n{data}{text}{more}")
    (place / "all.yaml").write_text(GROUP)
    for seed in (0, 1):
        assay.evaluate(
            model="dummy",
            model_args={"seed": seed},
            tasks=["all", "text"],
            limit=25,
            include_path=[str(place)],
            include_defaults=False,
            run_dir=str(place / f"run{seed}"),
            store=str(place / "store.db"),
        )
    return place


@pytest.fixture(scope="module")
def page(folder: Path) -> str:
    return run_findings(RunResult.load(folder / "run0"), RunDirectory(folder / "run0").read_json("run.json")).to_html()


def test_the_report_says_how_the_run_was_made(page: str, folder: Path) -> None:
    assert "harmonic mean of 2" in page
    assert "limit 25" in page
    assert "0 to 1 shots" in page
    assert "assay run --model dummy --model_args seed=0 --tasks all,text" in re.sub("<[^>]+>", "", page)
    assert 'class="ends"' in page, "a perplexity has an axis of its own"


def test_the_report_leads_to_the_worst_docs_of_each_task(page: str) -> None:
    anchors = set(re.findall(r'href="#(worst-\d+)"', page))
    assert anchors
    assert all(f'id="{anchor}"' in page for anchor in anchors)
    assert page.count('class="fail"') <= 3 * len(TASKS)
    assert "<script" not in page, "neither ours nor a doc's"
    assert "&lt;script&gt;alert(1)" in page


def test_of_a_chat_the_report_shows_what_was_asked_last() -> None:
    chat = (
        Message("system", "Be brief."),
        Message("user", ({"type": "text", "text": "Which?"}, {"type": "image_url"})),
    )
    assert _question(pack_arguments([Instance("generate_until", {}, (chat, {}), 0)])) == "Which? [image_url]"
    assert _question(pack_arguments([Instance("generate_until", {}, ("Q: 1", {}), 0)])) == "Q: 1"


def test_a_results_file_that_names_a_file_elsewhere_shows_none_of_it(folder: Path, tmp_path: Path) -> None:
    result = RunResult.load(folder / "run0")
    elsewhere = replace(result, path=tmp_path, tasks=dict(RunResult.load(folder / "run0").tasks))
    for task in elsewhere.tasks.values():
        object.__setattr__(
            task, "sample_file", f"../../../../../../{(folder / 'run0').relative_to('/')}/{task.sample_file}"
        )
    assert 'class="fail"' not in run_findings(elsewhere).to_html()
    assert 'class="fail"' in run_findings(result).to_html()


def test_an_axis_of_what_cannot_be_negative_begins_at_zero_or_above() -> None:
    assert Axis.over([100.0, 10.0, 2000.0]).low == 0.0
    assert Axis.over([100.0, 90.0, 110.0]).low > 80
    assert Axis.over([-1.0, 5.0]).low < -1.0


def test_the_verdict_stands_beside_the_difference(folder: Path) -> None:
    text = findings(compare_runs([open_run(folder / "run0"), open_run(folder / "run1")])).to_html()
    heads = re.findall(r"<th[^>]*>([^<]*)</th>", text)
    assert heads[heads.index("B − A ± stderr") + 1] == "verdict"
    assert palette_css() in text
    assert "[-" in text or "[+" in text


def test_one_palette_for_report_viewer_and_docs(page: str) -> None:
    assert palette_css() in page
    root = Path(__file__).parents[2]
    style = (root / "src/assay/view/static/style.css").read_text()
    assert not re.findall(r"--(?:accent|good|bad|ink|paper)\s*:", style), "colours are named in palette.css alone"
    ours = set(re.findall(r"#[0-9a-f]{6}", PALETTE_FILE.read_text()))
    assert set(re.findall(r"#[0-9a-f]{6}", (root / "docs/style.css").read_text())) <= ours


WRITTEN_ON = {
    "muted": ("paper", "surface", "soft", "accent-soft"),
    "accent": ("paper", "surface", "accent-soft"),
    "good": ("paper", "surface", "good-soft"),
    "bad": ("paper", "surface", "bad-soft"),
    "warn": ("paper", "surface", "warn-soft"),
    "ink": ("paper", "surface", "soft", "warn-soft", "bad-soft"),
    "paper": ("accent",),
    "on-gold": ("gold",),
}


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", [0, 1, 2], ids=["light", "dark by the system", "dark by choice"])
def test_every_text_stands_out_from_what_it_is_written_on(scheme: int) -> None:
    """4.5 to 1, as WCAG asks of text."""
    blocks = re.findall(r":root[^{]*\{([^{}]*)\}", palette_css())
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", blocks[scheme]))
    for text, grounds in WRITTEN_ON.items():
        for ground in grounds:
            low, high = sorted((luminance(colours[text]), luminance(colours[ground])))
            assert (high + 0.05) / (low + 0.05) >= 4.5, f"{text} on {ground}"


def test_a_name_is_broken_at_spaces_only() -> None:
    assert Html().whole_words("exact_match (strict-match)") == 'exact_match <span class="whole">(strict-match)</span>'
    assert Html().whole_words("a-" * 40) == "a-" * 40, "what is longer than a line may break anywhere"
