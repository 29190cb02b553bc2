"""`assay verify --reask`: what asking some docs again says about all answers of a bundle."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from tests.run.support import write_benchmark
from tests.sealing.test_sealing import code_of, edit_samples, tampered

import assay
from assay.errors import ConfigError
from assay.run import AskedAgain
from assay.sealing import ModelChoice, Reasked, reask_bundle, seal_run
from assay.stats import chance_to_see, odd_one_out, smallest_seen


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reask")
    write_benchmark(folder)
    task = folder / "sums.yaml"
    task.write_text(task.read_text().replace("repeats: 2", "").replace("do_sample: true, temperature: 1.0, ", ""))
    model = {"model": f"{folder / 'noted.py'}:Noted", "model_args": {"log": str(folder / "log.txt")}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_HOME", str(folder / "home"))
        assay.evaluate(**model, tasks=["both"], include_path=[str(folder)], run_dir=str(folder / "run"))
        path, _ = seal_run(folder / "run", folder / "sealed.zip")
    return path


def choice(folder: Path) -> ModelChoice:
    return ModelChoice(f"{folder / 'noted.py'}:Noted", {"log": str(folder / "log.txt")})


def test_the_models_own_answers_are_as_sealed(sealed: Path) -> None:
    found = reask_bundle(sealed, choice(sealed.parent), 25)
    assert (len(found.docs), found.total, found.replays) == (25, 60, 2)
    assert found.same_model
    assert not found.changed
    assert found.chances()[0.05] == chance_to_see(60, 25, 3)
    assert found.smallest_share == smallest_seen(60, 25) / 60


def test_changed_answers_are_found_where_they_are_asked(sealed: Path) -> None:
    def invent(rows: list[dict[str, Any]]) -> None:
        for row in rows:
            if row["doc_id"] % 2:
                row["resps"] = json.dumps([["invented"] for _ in json.loads(row["resps"])])

    bundle = tampered(sealed, edit_samples("sums", invent), sealed=True)
    found = reask_bundle(bundle, choice(sealed.parent), 60)
    assert {(doc.task, doc.doc_id % 2) for doc in found.changed} == {("sums", 1)}
    assert len(found.changed) == 15
    assert found.beyond_noise


def test_a_seed_draws_the_same_docs_and_none_draws_others(sealed: Path) -> None:
    drawn = [
        [(doc.task, doc.doc_id) for doc in reask_bundle(sealed, choice(sealed.parent), 5, seed=seed).docs]
        for seed in (7, 7, None)
    ]
    assert drawn[0] == drawn[1] != drawn[2]


def test_answers_drawn_at_random_are_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_benchmark(tmp_path)
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    words: dict[str, Any] = {"include_path": [str(tmp_path)], "run_dir": str(tmp_path / "run")}
    assay.evaluate(model="dummy", tasks=["sums"], **words)
    bundle, _ = seal_run(tmp_path / "run", tmp_path / "sealed.zip")
    with pytest.raises(ConfigError, match="sampled"):
        reask_bundle(bundle, ModelChoice("dummy", {}), 10)


def reasked(*docs: tuple[str, str, str]) -> Reasked:
    """Docs with a kept answer and two new ones each."""
    asked = [AskedAgain("t", place, [kept], [[one], [two]]) for place, (kept, one, two) in enumerate(docs)]
    return Reasked(total=100, left_out=0, docs=asked, replays=2, seed=0, fingerprint="f", same_model=True)


def test_a_model_that_disagrees_with_itself_is_evidence_of_nothing() -> None:
    found = reasked(("a", "a", "a"), ("a", "b", "a"), ("a", "b", "c"), ("a", "b", "b"))
    assert [doc.doc_id for doc in found.noisy] == [1, 2]
    assert [doc.doc_id for doc in found.changed] == [3]
    assert found.conclusive == 2
    assert found.p_value == odd_one_out(1, 2, 2) == pytest.approx(1 - (2 / 3) ** 2)
    assert not found.beyond_noise


def test_likelihoods_are_the_same_up_to_what_kernels_do() -> None:
    doc = AskedAgain("t", 0, [(-12.0, False)], [[(-12.01, True)], [(-11.99, False)]])
    assert not Reasked(10, 0, [doc], 2, 0, "f", True).changed
    doc = AskedAgain("t", 0, [(-12.0, False)], [[(-12.5, False)], [(-12.5, False)]])
    assert Reasked(10, 0, [doc], 2, 0, "f", True).changed


def test_a_noisy_server_that_was_left_alone_is_seldom_accused() -> None:
    """300 bundles of honest answers by servers that give another answer in 5 to 60 of 100 cases."""
    draw = random.Random(5)
    accused = 0
    for trial in range(300):
        noise = (0.05, 0.2, 0.6)[trial % 3]
        docs = [tuple(str(draw.randrange(4)) if draw.random() < noise else "a" for _ in range(3)) for _ in range(50)]
        accused += reasked(*docs).beyond_noise  # type: ignore[arg-type]
    assert accused / 300 <= 0.06


def test_the_stated_probability_is_how_often_tampering_is_seen() -> None:
    draw = random.Random(1)
    seen = sum(min(draw.sample(range(300), 30)) < 15 for _ in range(4000)) / 4000
    assert seen == pytest.approx(chance_to_see(300, 30, 15), abs=0.03)
    fewest = smallest_seen(300, 30)
    assert fewest is not None
    assert chance_to_see(300, 30, fewest) >= 0.95 > chance_to_see(300, 30, fewest - 1)
    assert smallest_seen(300, 0) is None


def test_the_verb_states_what_would_have_been_seen(sealed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = choice(sealed.parent)
    words = ["verify", str(sealed), "--model", model.model, "--model_args", f"log={sealed.parent / 'log.txt'}"]
    assert code_of(*words, "--reask", "25") == 0
    shown = capsys.readouterr().out
    assert "25 of 60 docs asked again, each 2 times" in shown
    assert "a share of" in shown
    assert code_of(*words) == 2
    change = edit_samples("sums", lambda rows: rows[0].update(resps=json.dumps([["no"]])))
    edited = tampered(sealed, change, sealed=True)
    words[1] = str(edited)
    assert code_of(*words, "--reask", "60", "--json") == 1
    assert json.loads(capsys.readouterr().out)["reask"]["otherwise"] == [{"task": "sums", "doc_id": 0}]
