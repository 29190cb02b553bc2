"""Overlays: docs left out and gold answers corrected, in what is scored and never in what is sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.own_files import Told, command, write_task

from assay import evaluate
from assay.analyses.compare import compare
from assay.data import doc_hash
from assay.errors import ConfigError
from assay.evaluation import score_again
from assay.finished import open_run
from assay.results import RunResult, rows_of
from assay.sealing import seal_run, verify_bundle

DOCS: list[dict[str, Any]] = [{"q": f"q{i}?", "c": ["yes", "no", "perhaps"], "gold": i % 3} for i in range(12)]
FIELDS: dict[str, Any] = {
    "output_type": "multiple_choice",
    "doc_to_text": "{{q}}",
    "doc_to_choice": "c",
    "doc_to_target": "gold",
}


def overlay(folder: Path, *docs: dict[str, Any], name: str = "mine-2026.1", file: str = "overlay.yaml") -> str:
    rows = [{"why": "checked", **doc} for doc in docs]
    text = yaml.safe_dump({"overlay": name, "docs": rows})
    if file.endswith(".jsonl"):
        text = "".join(json.dumps(row) + "\n" for row in [{"overlay": name}, *rows])
    (folder / file).write_text(text)
    return str(folder / file)


def of(i: int, **said: Any) -> dict[str, Any]:
    return {"doc_hash": doc_hash(DOCS[i]), **said}


def always_yes(context: str, choice: str) -> float:
    return 0.0 if "yes" in choice or choice.strip() == "A" else -5.0


def run(folder: Path, *tasks: str, **more: Any) -> RunResult:
    tasks = tasks or ("mine",)
    return evaluate(model=Told(ll=always_yes), tasks=list(tasks), include_path=[str(folder)], **more)


def accuracy(result: RunResult, task: str = "mine") -> tuple[float | None, int]:
    found = result[task]["acc"]
    return found.value, found.n


@pytest.mark.parametrize("file", ["overlay.yaml", "overlay.jsonl"])
def test_docs_are_left_out_and_gold_answers_corrected(tmp_path: Path, file: str) -> None:
    write_task(tmp_path, DOCS, **FIELDS)
    given = overlay(tmp_path, of(0, exclude=True), of(1, gold=0), of(2, gold="yes"), file=file)
    assert accuracy(run(tmp_path)) == (4 / 12, 12)
    result = run(tmp_path, overlay=given)
    assert accuracy(result) == (5 / 11, 11)
    assert "without 1 doc, 2 corrected: overlay mine-2026.1" in next(iter(rows_of(result))).note


@pytest.mark.parametrize("task", ["mine:mc", "mine:cloze", "mine:mc:choice_order", "mine"])
@pytest.mark.parametrize("said", [{"gold": 0}, {"fields": {"gold": 0}}])
def test_every_wording_has_the_same_gold(tmp_path: Path, task: str, said: dict[str, Any]) -> None:
    write_task(tmp_path, DOCS, **FIELDS)
    given = overlay(tmp_path, of(1, **said))
    texts: dict[str, set[str]] = {"without": set(), "with": set()}

    def accuracies(key: str, **more: Any) -> list[float | None]:
        def ll(context: str, choice: str) -> float:
            texts[key].add(context + choice)
            lines = {line.partition(". ")[2]: line[0] for line in context.splitlines() if ". " in line}
            right = lines.get("yes", "yes")
            return 0.0 if choice.strip() == right else -5.0

        result = evaluate(model=Told(ll=ll), tasks=[task], include_path=[str(tmp_path)], num_fewshot=2, **more)
        return [result[task]["acc"].value]

    assert accuracies("without") == [pytest.approx(4 / 12)]
    assert accuracies("with", overlay=given) == [pytest.approx(5 / 12)]
    assert texts["with"] == texts["without"], "nothing else is sent, and shots stay as published"


def test_scoring_again_gives_what_a_run_gives(tmp_path: Path) -> None:
    write_task(tmp_path, DOCS, **FIELDS)
    given = overlay(tmp_path, of(0, exclude=True), of(1, fields={"gold": 0}), of(11, exclude=True))
    for limit, n in ((None, 10), (6, 5)):
        run(tmp_path, limit=limit, run_dir=str(tmp_path / f"plain{limit}"))
        fresh = run(tmp_path, limit=limit, overlay=given, run_dir=str(tmp_path / f"fresh{limit}"))
        again = score_again(tmp_path / f"plain{limit}", {"overlay": [given]}, run_dir=tmp_path / f"again{limit}")
        once_more = score_again(tmp_path / f"fresh{limit}")
        assert accuracy(fresh) == accuracy(again) == accuracy(once_more)
        assert accuracy(fresh)[1] == n
        assert fresh["mine"]["acc"].low == again["mine"]["acc"].low
        samples = {doc.doc_hash: doc for doc in open_run(tmp_path / f"again{limit}").docs("mine")}
        assert samples[doc_hash(DOCS[1])].doc["gold"] == 1, "the doc stands as published"
        assert samples[doc_hash(DOCS[1])].target == 0


def test_groups_and_floors_stand_under_the_overlay(tmp_path: Path) -> None:
    write_task(tmp_path, DOCS, name="mine", **FIELDS)
    write_task(tmp_path, [{**doc, "q": doc["q"] + "!"} for doc in DOCS], name="other", **FIELDS)
    (tmp_path / "both.yaml").write_text(
        "group: both\ntask: [mine, other]\naggregate_metric_list: [{metric: acc, weight_by_size: true}]\n"
    )
    given = overlay(tmp_path, of(1, exclude=True, task="mine"), of(2, gold=0, task="mine"))
    result = run(tmp_path, "both", overlay=given, floors="default")
    assert result["both"]["acc"].value == pytest.approx((5 + 4) / (11 + 12))
    floors = next(score.floors for key, score in result.tasks["mine"].scores.items() if key.metric == "acc")
    assert floors["constant_label"].value == pytest.approx(5 / 11)
    assert floors["blind"].value == pytest.approx(5 / 11), "always yes, without the question too"
    # Another task's entries are passed over where that task is not run.
    assert accuracy(run(tmp_path, "other", overlay=given), "other") == (4 / 12, 12)


def test_texts_and_code_of_ones_own(tmp_path: Path) -> None:
    docs = [{"q": f"{i}", "a": str(i)} for i in range(6)]
    write_task(tmp_path, docs, name="texts", output_type="generate_until", doc_to_text="q", doc_to_target="a")
    code = "def score(doc, results):\n    return {'right': float(results[0] == doc['a'])}\n"
    write_task(tmp_path, docs, code, name="coded", output_type="generate_until", doc_to_text="q", doc_to_target="a")
    file = tmp_path / "coded.yaml"
    file.write_text(file.read_text() + "process_results: !function u.score\nmetric_list: [{metric: right}]\n")
    hashed = doc_hash(docs[0])
    by_gold = overlay(tmp_path, {"doc_hash": hashed, "gold": "7"}, file="gold.yaml")
    by_fields = overlay(tmp_path, {"doc_hash": hashed, "fields": {"a": "7"}}, file="fields.yaml")

    def scored(task: str, metric: str, given: str) -> float | None:
        model = Told(text=lambda prompt: "7" if prompt == "0" else prompt)
        return evaluate(model=model, tasks=[task], include_path=[str(tmp_path)], overlay=given)[task][metric].value

    assert scored("texts", "exact_match", by_gold) == scored("texts", "exact_match", by_fields) == 1.0
    assert scored("coded", "right", by_fields) == 1.0
    with pytest.raises(ConfigError, match="code of its own"):
        scored("coded", "right", by_gold)


@pytest.mark.parametrize(
    ("docs", "message"),
    [
        (
            [{"doc_hash": "0" * 64, "exclude": True}],
            "1 docs of the overlay are in none of the tasks mine.*000000000000",
        ),
        ([of(1, gold=1)], "changes nothing"),
        ([of(1, gold=9)], "none of the doc's 3 choices"),
        ([of(1, gold="neither")], "none of the doc's 3 choices"),
        ([of(1, fields={"q": "another?"})], "change what is sent"),
        ([of(1, fields={"golt": 1})], "no field 'golt'"),
        ([of(1, gold=0, exclude=True)], "says exclude and gold"),
        ([of(1)], "says nothing"),
        ([of(1, exclude=True), of(1, gold=0)], "the doc is also in"),
        ([{"doc_hash": "abc", "exclude": True}], "64 hexadecimal"),
        ([of(1, exclude=True, because="x")], "unknown key 'because'"),
        ([of(1, exclude=True, why="")], "does not say why"),
    ],
)
def test_what_does_not_fit_is_refused_before_the_first_request(
    tmp_path: Path, docs: list[dict[str, Any]], message: str
) -> None:
    write_task(tmp_path, DOCS, **FIELDS)
    model = Told()
    with pytest.raises(ConfigError, match=message):
        evaluate(model=model, tasks=["mine"], include_path=[str(tmp_path)], overlay=overlay(tmp_path, *docs))
    assert model.sent == 0


def test_runs_under_different_overlays_are_told_and_paired(tmp_path: Path) -> None:
    write_task(tmp_path, DOCS, **FIELDS)
    given = overlay(tmp_path, of(0, exclude=True), of(1, gold=0))
    run(tmp_path, run_dir=str(tmp_path / "plain"))
    run(tmp_path, run_dir=str(tmp_path / "under"), overlay=given)
    row = compare(tmp_path / "plain", tmp_path / "under").rows[0]
    assert row.paired
    assert row.only_a == 1
    assert row.difference.estimate.value == pytest.approx(1 / 11)
    assert any("without an overlay" in note and "mine-2026.1" in note for note in row.notes)


def test_a_seal_carries_the_overlay(tmp_path: Path) -> None:
    write_task(tmp_path, DOCS, **FIELDS)
    given = overlay(tmp_path, of(0, exclude=True), of(1, gold=0), of(2, fields={"gold": 0}))
    run(tmp_path, run_dir=str(tmp_path / "run"), overlay=given)
    path, found = seal_run(tmp_path / "run")
    assert found.passed
    (tmp_path / "overlay.yaml").unlink()
    assert verify_bundle(path).passed


def test_the_command_line_says_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_task(tmp_path, DOCS, **FIELDS)
    given = overlay(tmp_path, of(0, exclude=True), of(1, gold=0))
    run(tmp_path, run_dir=str(tmp_path / "run"))
    said = command(capsys, "score", tmp_path / "run", "--overlay", given)
    assert said.code == 0
    assert "without 1 doc" in said.text
    assert "overlay mine-2026.1" in said.text


def test_a_task_whose_contexts_vary_is_corrected_by_the_place_of_the_context(tmp_path: Path) -> None:
    docs = [{"q": f"{i} _ ends", "c": ["yes", "no"], "gold": i % 2} for i in range(8)]
    fields = {"doc_to_text": "gold", "doc_to_target": " ends", "doc_to_choice": "{{[c[0] ~ q, c[1] ~ q]}}"}
    write_task(tmp_path, docs, output_type="multiple_choice", **fields)
    given = overlay(tmp_path, {"doc_hash": doc_hash(docs[1]), "gold": 0})

    def scored(**more: Any) -> float | None:
        model = Told(ll=lambda context, choice: 0.0 if context.startswith("yes") else -5.0)
        return evaluate(model=model, tasks=["mine"], include_path=[str(tmp_path)], **more)["mine"]["acc"].value

    assert (scored(), scored(overlay=given)) == (4 / 8, 5 / 8)


def test_python_tasks_and_docs_drawn_at_random_stand_under_an_overlay(tmp_path: Path) -> None:
    code = (
        "from assay.tasks import BaseTask, MCStyle\n"
        "class Own(BaseTask):\n"
        "    NAME, DATASET_PATH, SAMPLE_SPLIT, FEWSHOT_SPLIT = 'own', 'json', 'test', 'test'\n"
        "    TASK_STYLER = MCStyle()\n"
        f"    DATASET_KWARGS = {{'data_files': {{'test': {str(tmp_path / 'mine.jsonl')!r}}}}}\n"
        "    def _get_raw_question(self, doc): return doc['q']\n"
        "    def _get_choices(self, doc): return doc['c']\n"
        "    def _get_correct_index(self, doc): return doc['gold']\n"
    )
    write_task(tmp_path, DOCS, **FIELDS)
    (tmp_path / "own.py").write_text(code)
    given = overlay(tmp_path, of(0, exclude=True), of(1, gold=0))

    def ll(context: str, choice: str) -> float:
        lines = {line.partition(". ")[2]: line[0] for line in context.splitlines() if ". " in line}
        return 0.0 if choice.strip() == lines["yes"] else -5.0

    def scored(**more: Any) -> tuple[float | None, int]:
        result = evaluate(model=Told(ll=ll), tasks=["own"], include_path=[str(tmp_path / "own.py")], **more)
        (name,) = result.tasks
        return accuracy(result, name)

    assert scored(overlay=given) == (4 / 11, 11)
    (drawn, n), (plain, all_n) = (scored(limit=8, sample="random", **more) for more in ({"overlay": given}, {}))
    assert (n, all_n) in ((8, 8), (7, 8))
    assert drawn is not None
    assert plain is not None
    assert scored(until="ci=0.4", overlay=given)[1] <= 11
