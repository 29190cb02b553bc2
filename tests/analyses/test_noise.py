"""`assay noise`: replays as runs, what they measure, and how gate, compare and power use it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.analyses.made import right, write_run
from tests.analyses.test_verbs import call

from assay.analyses.noise import NoiseOptions, measure_noise, plan_replays
from assay.analyses.noise_file import NoiseFile
from assay.config import RunConfig
from assay.errors import ConfigError
from assay.finished import Run, open_run

MODEL = '''
import os, random
from pathlib import Path
from assay.models import LM

class Moody(LM):
    """Answers by the mood of the day: every time it is loaded, another one."""

    def __init__(self, moods="", batch_size=None):
        self.moods = Path(moods)
        self.at_once = batch_size
        self.mood = None

    def fingerprint(self):
        return "moody"

    def loglikelihood(self, requests):
        if self.mood is None:
            self.mood = len(self.moods.read_text()) if self.moods.exists() else 0
            self.moods.write_text("x" * (self.mood + 1))
        if (limit := os.environ.get("MOODY_DIES")) and self.mood == int(limit):
            raise KeyboardInterrupt
        if not getattr(self, "said", False):
            self.said = True
            self.log(requests)
        return self.answers(requests)

    def log(self, requests):
        with open(self.moods.with_suffix(".asked"), "a") as log:
            log.write(f"{self.mood} {[r.doc_id for r in requests][:6]} {self.at_once}\\n")

    def answers(self, requests):
        return [(-random.Random(f"{r.args} {self.mood % 2 if r.doc_id % 7 == 0 else 0}").random() * 9, False) for r in requests]

    def generate_until(self, requests):
        raise NotImplementedError

    loglikelihood_rolling = generate_until
'''

TASK = """
task: colours
dataset_path: json
dataset_kwargs: {data_files: {test: docs.jsonl}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{q}}"
doc_to_choice: [red, blue]
doc_to_target: "{{a}}"
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "moody.py").write_text(MODEL)
    (tmp_path / "colours.yaml").write_text(TASK)
    docs = [{"q": f"Which colour is {i}?", "a": i % 2} for i in range(70)]
    (tmp_path / "docs.jsonl").write_text("\n".join(map(json.dumps, docs)))
    return tmp_path


ASK = (
    "noise",
    "--model",
    "moody.py:Moody",
    "--model_args",
    "moods=moods",
    "--tasks",
    "colours.yaml",
    "--run_dir",
    "kept",
)


def test_replays_are_asked_afresh_in_other_orders_and_the_flips_are_named(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = call(capsys, *ASK, "--replays", "3", "--concurrency", "4,2")
    assert code == 0
    asked = (here / "moods.asked").read_text().splitlines()
    assert [line.split()[0] for line in asked] == ["0", "1", "2"]
    assert len({line.partition("[")[2].partition("]")[0] for line in asked}) == 3
    assert [line.split()[-1] for line in asked] == ["4", "2", "4"]
    row = NoiseFile.load("kept").rows[0]
    assert (row.name, row.metric, row.n, len(row.scores)) == ("colours", "acc,none", 70, 3)
    assert row.flips
    assert all(doc % 7 == 0 and 0 < times < 3 for doc, times in row.flips)
    assert "two runs differ on" in out
    assert row.scores[0] == row.scores[2]


def test_a_replay_that_was_killed_goes_on_and_the_file_is_the_same(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOODY_DIES", "1")
    code, *_ = call(capsys, *ASK, "--replays", "2")
    assert code == 130
    assert not (here / "kept" / "noise.json").exists()
    monkeypatch.delenv("MOODY_DIES")
    (here / "moods").write_text("x")  # the mood it was killed in
    assert call(capsys, *ASK, "--replays", "2")[0] == 0
    first = (here / "kept" / "noise.json").read_bytes()
    assert call(capsys, *ASK, "--replays", "2")[0] == 0
    assert (here / "kept" / "noise.json").read_bytes() == first
    assert len((here / "moods.asked").read_text().splitlines()) == 2
    whole = (here / "whole", here / "kept")
    (here / "moods").unlink()
    words = [str(whole[0]) if word == "kept" else word for word in ASK]
    assert call(capsys, *words, "--replays", "2")[0] == 0
    assert (whole[0] / "noise.json").read_bytes() == first


def test_one_replay_is_refused_and_so_is_what_cannot_be_replayed(here: Path) -> None:
    config = RunConfig(model="dummy", tasks=["colours.yaml"])
    with pytest.raises(ConfigError, match=r"replays: .* greater than or equal to 2"):
        plan_replays(config, NoiseOptions(replays=1), here)
    with pytest.raises(ConfigError, match="--until cannot be replayed"):
        plan_replays(config.model_copy(update={"until": "ci=0.1"}), NoiseOptions(), here)
    with pytest.raises(ConfigError, match="has no address"):
        plan_replays(config, NoiseOptions(servers=("http://127.0.0.1:1/v1",)), here)


def test_servers_are_taken_in_turn_and_each_meets_every_company(here: Path) -> None:
    config = RunConfig(model="local-completions", model_args={"model": "m", "num_concurrent": 8}, tasks=["x"])
    replays = plan_replays(config, NoiseOptions(replays=6, servers=("http://a/v1", "http://b/v1")), here)
    seen = [(r.config.model_args["base_url"][7], r.config.model_args["num_concurrent"]) for r in replays]
    assert seen == [("a", 8), ("b", 8), ("a", 4), ("b", 4), ("a", 2), ("b", 2)]
    assert len({r.config.store for r in replays}) == len({r.config.shuffle for r in replays}) == 6


def shifting(path: Path, count: int, shift: float, n: int = 800) -> list[Path]:
    """Runs of one model on two tasks and their group; the whole run moves up or down, both tasks together."""
    rng = np.random.default_rng(11)
    difficulty = {task: rng.random(n) for task in ("one", "two")}
    group = {"both": {"key": "acc,none", "aggregator": "mean", "children": {"one": n, "two": n}}}
    found = []
    for number in range(count):
        bar = 0.6 + shift * (-1) ** number
        scores = {task: {"acc,none": (hard < bar).astype(float).tolist()} for task, hard in difficulty.items()}
        mean = float(np.mean([values["acc,none"] for values in scores.values()]))
        made = {"both": {**group["both"], "value": mean}}
        found.append(write_run(path / f"run-{number}", scores, groups=made))
    return found


def test_gate_compare_and_power_take_the_file_up_to_the_group(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = shifting(tmp_path, 7, 0.02)
    measured = measure_noise([open_run(path) for path in paths[2:]], [{"server": None}] * 5)
    assert {row.name: row.kind for row in measured.rows} == {"one": "task", "two": "task", "both": "group"}
    by_name = {row.name: row for row in measured.rows}
    # The shift is shared: the group's noise does not average out over its members.
    assert by_name["both"].run_variance == pytest.approx(by_name["one"].run_variance, rel=0.2)
    measured.save(tmp_path / "noise.json")
    assert NoiseFile.load(tmp_path / "noise.json").rows == measured.rows

    a, b = paths[0], paths[1]
    verdicts = []
    for more in ((), ("--noise", tmp_path / "noise.json")):
        code, out, _ = call(capsys, "compare", a, b, "--json", *more)
        assert code == 0
        verdicts.append({row["name"]: row["verdict"] for row in json.loads(out)["rows"]})
    assert set(verdicts[0].values()) == {"worse"}
    assert set(verdicts[1].values()) == {"undecided"}
    assert call(capsys, "gate", b, "--baseline", a)[0] == 1
    code, out, _ = call(capsys, "gate", b, "--baseline", a, "--noise", tmp_path / "noise.json")
    assert code == 4
    code, out, _ = call(capsys, "gate", b, "--threshold", "0.55", "--tasks", "one", "--noise", tmp_path / "noise.json")
    assert code in (0, 4)
    needed = []
    for more in ((), ("--noise", tmp_path / "noise.json")):
        code, out, _ = call(capsys, "power", "--effect", "0.02", "--from", str(a), "--tasks", "one", "--json", *more)
        needed.append(json.loads(out)[0]["needed"])
    assert needed[0] > 0
    assert needed[1] is None


def test_two_replays_only_bound_and_that_is_said(tmp_path: Path) -> None:
    runs = [open_run(path) for path in shifting(tmp_path, 2, 0.01)]
    measured = measure_noise(runs, [{"server": None}] * 2)
    row = measured.rows[0]
    assert row.whole_run is None
    assert row.most is not None
    assert row.most > abs(row.scores[1] - row.scores[0])
    assert "2 replays only bound the noise and do not estimate it" in measured.notes[0]
    assert measured.to_dict()["estimated"] is False
    assert "only bounded" in row.note(row.n)


@pytest.mark.parametrize(("count", "said"), [(3, True), (4, True), (5, False)])
def test_few_replays_are_said_to_miss_a_second_state(tmp_path: Path, count: int, said: bool) -> None:
    runs = [open_run(path) for path in shifting(tmp_path, count, 0.01)]
    measured = measure_noise(runs, [{"server": None}] * count)
    assert measured.to_dict()["estimated"] is True
    assert (len(measured.notes) == 1) is said


def test_a_gate_says_that_the_noise_is_another_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = shifting(tmp_path, 5, 0.01)
    measured = measure_noise([open_run(path) for path in paths], [{"server": None}] * 5)
    for model, said in ((measured.model, False), ("another", True)):
        replace(measured, model=model).save(tmp_path / "noise.json")
        for words in (("--baseline", paths[0]), ("--threshold", "0.1", "--tasks", "one")):
            _, out, _ = call(capsys, "gate", paths[2], *words, "--noise", tmp_path / "noise.json")
            assert ("serving noise was measured on another, this is" in out) is said


def test_draws_are_told_from_serving_by_greedy_replays(tmp_path: Path) -> None:
    """Drawn answers are right in 40 to 80 % of cases, greedy ones change on 2 % of docs: the truth is known."""
    rng, n = np.random.default_rng(5), 2000
    chance, always = rng.uniform(0.4, 0.8, n), (rng.random(n) < 0.6).astype(float)
    config = {"output_type": "generate_until", "generation_kwargs": {"do_sample": True, "temperature": 1.0}}
    found: dict[str, list[Run]] = {"drawn": [], "greedy": []}
    for kind, runs in found.items():
        for i in range(5):
            flipped = np.where(rng.random(n) < 0.02, 1 - always, always)
            values = (rng.random(n) < chance).astype(float) if kind == "drawn" else flipped
            scores = {"sums": {"acc,none": values.tolist()}}
            runs.append(open_run(write_run(tmp_path / f"{kind}-{i}", scores, configs={"sums": config})))
    (row,) = measure_noise(found["drawn"], [{"server": None}] * 5, found["greedy"]).rows
    assert row.sampled
    assert row.draws is not None
    truth = np.sqrt((np.mean(chance * (1 - chance)) - 0.02 * 0.98) / n)
    assert row.draws.low is not None
    assert row.draws.high is not None
    assert row.draws.low <= truth <= row.draws.high
    assert row.draws.high < 1.1 * truth
    assert row.by_doc is not None
    assert row.by_doc.value > row.draws.value


def test_a_task_that_the_file_does_not_have_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    paths = [write_run(tmp_path / str(i), {"other, with comma": {"acc,none": right(rng, 50)}}) for i in range(2)]
    NoiseFile("m", ({}, {}, {}), ()).save(tmp_path / "noise.json")
    _, out, _ = call(capsys, "compare", *paths, "--json", "--noise", tmp_path / "noise.json")
    assert "noise.json" in json.loads(out)["rows"][0]["notes"][0]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"kind": "assay noise", "format": 1}', '{"kind": "x", "format": 1}'])
def test_a_file_that_is_none_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "noise.json").write_text(text)
    with pytest.raises(ConfigError, match=r"noise\.json is not a noise file"):
        NoiseFile.load(tmp_path / "noise.json")
    with pytest.raises(ConfigError, match="cannot be read"):
        NoiseFile.load(tmp_path / "nowhere.json")
