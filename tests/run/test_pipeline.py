"""The loop: windows of docs, round by round, in order; the same for every answerer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.run.rounds import write_rounds

from assay.config import RunConfig
from assay.errors import ModelError
from assay.run.doc_work import DocWork
from assay.run.journal import Journal
from assay.run.pipeline import answer_all, run_pipeline
from assay.run.plan import Plan, make_plan
from assay.run.progress import Counts, Observer
from assay.run.settle import settle


class Scripted:
    """Answers with the number of the round, and writes down what it was given."""

    windows_at_once = 1
    takes_steps = True

    def __init__(self, window_requests: int = 20, fails_at: int | None = None) -> None:
        self.window_requests, self.fails_at = window_requests, fails_at
        self.rounds: list[list[int]] = []
        self.checked: list[int] = []
        self.is_cancelled = False

    def answer(self, docs: Sequence[DocWork], done: Callable[[DocWork], None]) -> None:
        if self.fails_at == len(self.rounds):
            raise ModelError("gone")
        self.rounds.append([work.requests.doc_id for work in docs])
        for work in docs:
            for instance in work.round:
                work.digests.append(b"%d" % instance.idx)
                instance.resps = [str(work.requests.doc_id)] * instance.repeats
                instance.responses = [None] * instance.repeats
            done(work)

    def check(self, docs: Sequence[DocWork]) -> None:
        self.checked += [work.requests.doc_id for work in docs]

    def notes(self) -> list[str]:
        return ["scripted"]

    def cancel(self) -> None:
        self.is_cancelled = True


class Silent(Scripted):
    """Gives no answers, as a forecast does."""

    def answer(self, docs: Sequence[DocWork], done: Callable[[DocWork], None]) -> None:
        self.rounds.append([work.requests.doc_id for work in docs])


class Heard(Observer):
    def __init__(self) -> None:
        self.answers, self.scores, self.is_summarizing = 0, 0, False

    def answered(self, work: DocWork) -> None:
        self.answers += 1

    def scored(self, task: str, running: tuple[str, float, int] | None) -> None:
        self.scores += 1

    def summarizing(self) -> None:
        self.is_summarizing = True


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_rounds(tmp_path)
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    return tmp_path


def planned(folder: Path, *tasks: str, **settings: object) -> tuple[Plan, RunConfig]:
    config = RunConfig(model="dummy", tasks=list(tasks), include_path=[str(folder)], bootstrap_iters=0, **settings)
    return settle(make_plan(config, None), config), config


def test_each_window_is_answered_round_by_round_and_scored_before_the_next(bench: Path) -> None:
    plan, config = planned(bench, "talk", limit=12)
    answerer, heard = Scripted(), Heard()
    result = run_pipeline(plan, answerer, config, Journal(config, Counts()), observer=heard)
    first, rest = list(range(5)), list(range(5, 10))
    assert answerer.rounds == [first, first, rest, rest, [10, 11], [10, 11]]
    assert answerer.checked == list(range(12))
    assert (heard.answers, heard.scores, heard.is_summarizing) == (24, 3, True)
    assert result["talk"].health.docs == 12
    assert "scripted" in result.notes


def test_an_answerer_without_answers_is_given_every_doc_once(bench: Path) -> None:
    """Nothing is scored, and no answer gives rise to a further round."""
    plan, _ = planned(bench, "talk", "sums", limit=7)
    answerer = Silent()
    answer_all(plan, answerer)
    assert [doc_id for docs in answerer.rounds for doc_id in docs] == [*range(7), *range(7)]


def test_an_error_cancels_what_is_under_way_and_leaves_no_file(bench: Path) -> None:
    from assay.results import RunDirectory

    plan, config = planned(bench, "talk", limit=12, run_dir=str(bench / "run"))
    journal = Journal(config, Counts())
    journal.directory = RunDirectory.create(config, "scripted")
    answerer = Scripted(fails_at=3)
    with pytest.raises(ModelError, match="gone"):
        run_pipeline(plan, answerer, config, journal, observer=Observer())
    assert [path.name for path in (bench / "run").rglob("*.p*")] == []


def test_no_docs_are_a_run_of_no_docs(bench: Path) -> None:
    plan, config = planned(bench, "talk", samples={"talk": []})
    result = run_pipeline(plan, Scripted(), config, Journal(config, Counts()), observer=Observer())
    assert (result["talk"].health.docs, dict(result["talk"].scores)) == (0, {})
