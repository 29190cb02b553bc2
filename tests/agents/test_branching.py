"""A branch takes its first steps from a finished run, free of charge, and goes on with another model, prompt or result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from assay.analyses.explain import ExplainOptions, explain, findings
from assay.analyses.explain.branches import first_apart
from assay.config import RunConfig
from assay.errors import ConfigError
from assay.evaluation import score_again
from assay.finished import open_run
from assay.results import MetricKey, from_step
from assay.run import forecast

from .scripted import Scripted, last_result, results, run, write_task
from .test_replay import TASK, TOOLS, Killed, calls, counting, score

DOCS = [{"n": 3}, {"n": 2}]


def giving_up(messages: Any, draw: int) -> Any:
    """Counts one step, then submits what is wrong."""
    return ("add", {}) if not results(messages) else ("submit", {"answer": "0"})


def counting_on(messages: Any, draw: int) -> Any:
    """As `counting`, whether or not a system text comes first."""
    return counting([message for message in messages if message.role != "system"], draw)


def task_in(folder: Path, *, gives: str = "str(self.n)", more: str = "", docs: Any = DOCS) -> str:
    return write_task(folder, TASK % more, docs, tools=TOOLS % gives)


def branch(task: str, policy: Any, folder: Path, *, of: str = "run", to: str = "branch", **options: Any) -> Any:
    model = policy if isinstance(policy, Scripted) else Scripted(policy, policy.__name__)
    return run(task, model, folder, run_dir=str(folder / to), branch=str(folder / of), **options)


def trajectories(folder: Path, task: str = "counting") -> list[list[dict[str, Any]]]:
    """Of each doc the draws, as they are stored."""
    rows = pq.read_table(folder / "samples" / f"{task}.parquet").to_pylist()
    return [[draw["more"]["trajectory"] for draw in json.loads(row["extras"])[0]] for row in rows]


def test_another_model_takes_over_at_a_step_and_pays_only_for_its_own(tmp_path: Path) -> None:
    task = task_in(tmp_path)
    before = run(task, Scripted(giving_up, "gives up"), tmp_path)
    other = Scripted(counting, "counts")
    after = branch(task, other, tmp_path, at=2)
    assert (score(before), score(after), score(after, "end_state")) == (0.0, 1.0, 1.0)
    assert other.asked == 3 + 2  # without the first step of each
    assert calls(tmp_path) == 2 + 3 + 2  # one in each replay, and what is new
    assert [each["branch"] for (each,) in trajectories(tmp_path / "branch")] == [{"step": 2, "draw": 0}] * 2
    assert [len(each["calls"]) for (each,) in trajectories(tmp_path / "branch")] == [3, 2]
    for (mine,), (theirs,) in zip(trajectories(tmp_path / "branch"), trajectories(tmp_path / "run")):
        assert mine["conversation"][:3] == theirs["conversation"][:3]  # with the tokens and seconds that they took


def test_a_branch_at_its_first_step_is_a_run_of_its_own(tmp_path: Path) -> None:
    task = task_in(tmp_path)
    run(task, Scripted(giving_up, "gives up"), tmp_path)
    assert score(branch(task, counting, tmp_path, at=1)) == 1.0


def test_trajectories_without_the_step_stay_as_they_were(tmp_path: Path) -> None:
    task = task_in(tmp_path)
    run(task, Scripted(counting, "counts"), tmp_path)  # four steps, and three
    made = calls(tmp_path)
    after = branch(task, lambda messages, draw: ("submit", {"answer": "?"}), tmp_path, at=4)
    assert score(after) == 0.5
    (gone,), (stayed,) = trajectories(tmp_path / "branch")
    assert (stayed, gone["draw"]) == (trajectories(tmp_path / "run")[1][0], 1)
    assert score(after, "end_state") == 1.0
    assert calls(tmp_path) == made + 3  # those before the step that is made anew


@pytest.mark.parametrize("after", range(5))
def test_a_killed_branch_goes_on_where_it_was(tmp_path: Path, after: int) -> None:
    def dying(messages: Any, draw: int) -> Any:
        asked.append(1)
        if len(asked) > after:
            raise Killed
        return counting(messages, draw)

    asked: list[int] = []
    task = task_in(tmp_path)
    run(task, Scripted(giving_up, "gives up"), tmp_path)
    with pytest.raises(Killed):
        branch(task, Scripted(dying, "counts"), tmp_path, at=2)
    rest = Scripted(counting, "counts")
    result = branch(task, rest, tmp_path, at=2)
    assert (score(result), score(result, "end_state")) == (1.0, 1.0)
    assert rest.asked <= 5 - after + 1  # what was asked together with the request that killed it is asked again
    whole = branch(task, Scripted(counting, "counts"), tmp_path, at=2, to="whole", store=str(tmp_path / "other.sqlite"))
    assert score(whole) == 1.0
    assert without_times(tmp_path / "branch") == without_times(tmp_path / "whole")


def without_times(folder: Path) -> str:
    found = trajectories(folder)
    for each in (each for draws in found for each in draws):
        each.pop("seconds", None)
        for part in (*each["calls"], *(message.get("took", {}) for message in each["conversation"])):
            part.pop("seconds", None)
    return json.dumps(found)


def test_a_tool_that_says_something_else_before_the_branch_fails_its_trajectory(tmp_path: Path) -> None:
    task = task_in(tmp_path, gives="f'{self.n} {time.time_ns()}'")
    run(task, Scripted(giving_up, "gives up"), tmp_path)
    health = branch(task, counting, tmp_path, at=2).tasks["counting"].health
    assert (health.failed, health.count("begun_anew")) == (2, 0)
    assert any("another result than in" in reason for reason in health.reasons)


def test_a_tool_that_says_something_else_after_the_branch_makes_it_begin_anew_there(tmp_path: Path) -> None:
    def dying(messages: Any, draw: int) -> Any:
        asked.append(1)
        if len(asked) > 3:
            raise Killed
        return counting(messages, draw)

    asked: list[int] = []
    task = task_in(tmp_path, gives="self.n if self.n < 2 else f'{self.n} {time.time_ns()}'", docs=[{"n": 6}])
    run(task, Scripted(giving_up, "gives up"), tmp_path)
    with pytest.raises(Killed):
        branch(task, Scripted(dying, "counts"), tmp_path, at=2)
    result = branch(task, Scripted(counting, "counts"), tmp_path, at=2)
    health = result.tasks["counting"].health
    assert (health.failed, health.count("begun_anew"), score(result), score(result, "end_state")) == (0, 1, 1.0, 1.0)
    ((kept,),) = trajectories(tmp_path / "branch")
    assert (kept["begun_anew"], kept["branch"], kept["calls"][0]["result"]) == (1, {"step": 2, "draw": 0}, "1")


def test_results_of_the_other_run_are_not_taken_after_the_branch(tmp_path: Path) -> None:
    task = task_in(tmp_path)
    run(task, Scripted(counting, "counts"), tmp_path)
    made = calls(tmp_path)
    branch(task, counting, tmp_path, at=2)
    assert calls(tmp_path) == made + 5  # all of both, though the store has what the same model got from the same calls


def believing(messages: Any, draw: int) -> Any:
    """Submits what it was told last."""
    return ("submit", {"answer": last_result(messages)}) if results(messages) else ("add", {})


def replaced(folder: Path, *rows: dict[str, Any]) -> dict[str, str]:
    (folder / "other.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {"tool_result": str(folder / "other.jsonl")}


def test_a_changed_result_is_what_the_model_sees_and_others_stay(tmp_path: Path) -> None:
    task = task_in(tmp_path)
    assert score(run(task, Scripted(believing, "believes"), tmp_path)) == 0.0
    rows = replaced(tmp_path, {"doc": 0, "draw": 0, "step": 1, "result": "3"})
    after = branch(task, Scripted(believing, "believes"), tmp_path, replace=rows)
    assert score(after) == 0.5
    assert after.tasks["counting"].health.failed == 0
    (changed,), (stayed,) = trajectories(tmp_path / "branch")
    assert changed["calls"][0]["result"] == "3"
    assert "branch" not in stayed


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"doc": 7, "step": 1, "result": "3"}, "no doc 7"),
        ({"doc": 0, "draw": 4, "step": 1, "result": "3"}, "no draw 4"),
        ({"doc": 0, "step": 5, "result": "3"}, "step 5"),
        ({"doc": 0, "step": 1, "call": 2, "result": "3"}, "made 1 calls"),
        ({"doc": 0, "step": 1, "result": 3}, "result"),
        ({"doc": 0, "step": 1, "result": "3", "results": "3"}, "results"),
        ({"doc": 0, "step": 1, "result": "3", "task": "counter"}, "counter"),
        ([0, 0, 1, "3"], "line 1"),
    ],
)
def test_lines_about_what_is_not_there_are_refused_before_the_first_request(
    tmp_path: Path, row: Any, said: str
) -> None:
    task = task_in(tmp_path)
    run(task, Scripted(believing, "believes"), tmp_path)
    model = Scripted(believing, "believes")
    with pytest.raises(ConfigError, match=said) as raised:
        branch(task, model, tmp_path, replace=replaced(tmp_path, row))
    assert "line 1" in raised.value.message
    assert model.asked == 0


def test_another_system_text_takes_the_place_of_all_there_was(tmp_path: Path) -> None:
    seen: list[str] = []

    def watching(messages: Any, draw: int) -> Any:
        seen.append(next((m.content for m in messages if m.role == "system"), "none"))
        return counting_on(messages, draw)

    task = write_task(tmp_path, TASK % "" + "description: You count.\n", DOCS, tools=TOOLS % "str(self.n)")
    run(task, Scripted(lambda m, d: giving_up(m, d), "gives up"), tmp_path)
    assert score(branch(task, Scripted(watching, "watches"), tmp_path, at=2, replace={"system": "Go on."})) == 1.0
    assert set(seen) == {"Go on."}
    seen.clear()
    # and where only one of the two runs has one
    bare = task_in(tmp_path / "bare")
    run(bare, Scripted(giving_up, "gives up"), tmp_path, run_dir=str(tmp_path / "without"))
    watcher = Scripted(watching, "also watches")
    assert score(branch(bare, watcher, tmp_path, of="without", to="with", at=2, replace={"system": "Go on."})) == 1.0
    assert score(branch(task, Scripted(watching, "too"), tmp_path, of="branch", to="last", at=2)) == 1.0
    assert set(seen) == {"Go on.", "You count."}


def test_first_error_is_the_first_call_that_was_declined(tmp_path: Path) -> None:
    def clumsy(messages: Any, draw: int) -> Any:
        n = results(messages)
        return [("add", {}), ("add", {"by": 2}), ("submit", {"answer": "?"})][n]

    task = task_in(tmp_path)
    run(task, Scripted(clumsy, "clumsy"), tmp_path)
    assert score(branch(task, counting, tmp_path, at="first_error")) == 1.0
    assert [each["branch"]["step"] for (each,) in trajectories(tmp_path / "branch")] == [2, 2]


def test_draws_are_left_one_by_one_and_have_numbers_of_their_own(tmp_path: Path) -> None:
    def lucky(messages: Any, draw: int) -> Any:
        return counting(messages, draw) if draw % 2 else giving_up(messages, draw)

    task = write_task(
        tmp_path,
        TASK % "" + "repeats: 2\ngeneration_kwargs: {do_sample: true, temperature: 1.0}\n",
        DOCS,
        tools=TOOLS % "str(self.n)",
    )
    assert score(run(task, Scripted(lucky, "lucky"), tmp_path)) == 0.5
    after = branch(task, Scripted(counting, "counts"), tmp_path, at=2, repeats=3)
    assert score(after) == 1.0
    first = trajectories(tmp_path / "branch")[0]
    wanted = [(2, 0), (4, 0), (6, 0), (3, 1), (5, 1), (7, 1)]
    assert [(each["draw"], each["branch"]["draw"]) for each in first] == wanted
    again = branch(task, Scripted(counting, "counts"), tmp_path, of="branch", to="twice", at=2)
    assert min(each["draw"] for each in trajectories(tmp_path / "twice")[0]) > 7
    assert score(again) == 1.0


def test_docs_that_the_run_does_not_have_are_named(tmp_path: Path) -> None:
    task = task_in(tmp_path)
    run(task, Scripted(giving_up, "gives up"), tmp_path, limit=1)
    after = branch(task, counting, tmp_path, at=2)
    assert any("1 docs (1)" in note for note in after.notes)
    assert (score(after), after.tasks["counting"].health.docs) == (1.0, 1)


def test_a_changed_doc_has_failed_and_is_not_sent(tmp_path: Path) -> None:
    task = task_in(tmp_path)
    run(task, Scripted(giving_up, "gives up"), tmp_path)
    task_in(tmp_path, docs=[{"n": 3}, {"n": 1}])
    model = Scripted(counting, "counts")
    health = branch(task, model, tmp_path, at=2).tasks["counting"].health
    assert (health.docs, health.failed, model.asked) == (2, 1, 3)


def test_another_question_has_failed_and_is_not_sent(tmp_path: Path) -> None:
    task = task_in(tmp_path)
    run(task, Scripted(giving_up, "gives up"), tmp_path)
    write_task(tmp_path, (TASK % "").replace("Count to", "Please count to"), DOCS, tools=TOOLS % "str(self.n)")
    model = Scripted(counting, "counts")
    health = branch(task, model, tmp_path, at=2).tasks["counting"].health
    assert (health.failed, model.asked) == (2, 0)
    assert any("question" in reason for reason in health.reasons)


@pytest.mark.parametrize("native", [True, False])
def test_tools_as_text_go_on_only_from_tools_as_text(tmp_path: Path, native: bool) -> None:
    def told(messages: Any, draw: int) -> Any:
        done = results(messages) + sum("Result of" in str(message.content) for message in messages)
        wanted = next(int(m.content.split()[-1].rstrip(".")) for m in messages if m.role == "user")
        return ("add", {}) if done < wanted else ("submit", {"answer": str(done)})

    both = {
        True: task_in(tmp_path / "native"),
        False: write_task(tmp_path / "text", TASK % "" + "tool_protocol: text\n", DOCS, tools=TOOLS % "str(self.n)"),
    }
    run(both[native], Scripted(told, "before", native=native), tmp_path)
    same = branch(both[native], Scripted(told, "same", native=native), tmp_path, at=3, to="same")
    assert (score(same), same.tasks["counting"].health.failed) == (1.0, 0)
    other = Scripted(told, "other", native=not native)
    health = branch(both[not native], other, tmp_path, at=2).tasks["counting"].health
    assert (health.failed, other.asked) == (2, 0)
    assert any("offered in another way" in reason for reason in health.reasons)


def test_effects_outside_are_not_repeated_for_a_branch(tmp_path: Path) -> None:
    task = task_in(tmp_path, more=", effects: outside")
    run(task, Scripted(giving_up, "gives up"), tmp_path)
    made = calls(tmp_path)
    health = branch(task, counting, tmp_path, at=2).tasks["counting"].health
    assert (health.failed, calls(tmp_path)) == (2, made)
    assert any("--replay_outside" in reason for reason in health.reasons)
    assert score(branch(task, counting, tmp_path, at=2, to="allowed", replay_outside=True)) == 1.0


def test_a_branch_is_scored_again_without_its_source(tmp_path: Path) -> None:
    task = task_in(tmp_path)
    run(task, Scripted(giving_up, "gives up"), tmp_path)
    branch(task, counting, tmp_path, at=2)
    (tmp_path / "run").rename(tmp_path / "gone")
    assert score(score_again(tmp_path / "branch")) == 1.0


def test_a_dry_run_counts_the_first_requests_and_ends(tmp_path: Path) -> None:
    task = task_in(tmp_path)
    given = {"tasks": [task], "apply_chat_template": True, "store": str(tmp_path / "store.sqlite"), "repeats": 2}
    whole = forecast(RunConfig(**given), model=Scripted(counting, "counts")).tasks["counting"]
    assert (whole.docs, whole.requests) == (2, 4)
    run(task, Scripted(counting, "counts"), tmp_path)  # four steps, and three
    given |= {"branch": str(tmp_path / "run"), "at": 4}
    cut = forecast(RunConfig(**given), model=Scripted(giving_up, "gives up")).tasks["counting"]
    assert (cut.docs, cut.requests) == (2, 2)


@pytest.mark.parametrize(
    "options",
    [
        {"at": 2},
        {"branch": "run"},
        {"branch": "run", "at": 0},
        {"branch": "run", "at": "last"},
        {"branch": "none", "at": 2},
    ],
)
def test_what_says_no_place_is_refused(tmp_path: Path, options: Any) -> None:
    task = task_in(tmp_path)
    run(task, Scripted(giving_up, "gives up"), tmp_path)
    if "branch" in options:
        options = {**options, "branch": str(tmp_path / options["branch"])}
    with pytest.raises(ConfigError):
        run(task, Scripted(counting), tmp_path, run_dir=str(tmp_path / "branch"), **options)


def straying(messages: Any, draw: int) -> Any:
    """Counts well, but what it does second spoils everything."""
    n = results(messages)
    return [("add", {}), ("spoil", {}), ("add", {}), ("submit", {"answer": "?"})][n]


SPOILT = TOOLS.replace(
    "    def add",
    """    def spoil(self) -> str:
        "Spoil it."
        self.n = 100
        return "spoilt"

    def add""",
)


def finding_the_way(messages: Any, draw: int) -> Any:
    """Counts to what is wanted, if nothing is spoilt; misses in one draw of four."""
    said = [message.content for message in messages if message.role == "tool"]
    if "spoilt" in said or draw % 4 == 3:
        return "submit", {"answer": "0"}
    return counting(messages, draw)


def test_each_step_in_turn_tells_where_it_was_decided(tmp_path: Path) -> None:
    docs = [{"n": 3 + i % 2, "i": i} for i in range(12)]
    text = TASK % "" + "generation_kwargs: {do_sample: true, temperature: 1.0}\n"
    task = write_task(tmp_path, text, docs, tools=SPOILT % "str(self.n)")
    run(task, Scripted(straying, "strays"), tmp_path)
    after = branch(task, Scripted(finding_the_way, "finds"), tmp_path, at="each", repeats=8)
    scores = after.tasks["counting"].scores
    by_step = [scores[MetricKey(from_step("exact_match", step), "none")].estimate.value for step in (1, 2, 3, 4)]
    assert by_step == [0.75, 0.75, 0.0, 0.0]
    assert scores[MetricKey("exact_match", "none")].estimate.value == 0.375
    assert MetricKey("pass@8(exact_match)", "none") not in scores

    found = explain(open_run(tmp_path / "run"), open_run(tmp_path / "branch"), ExplainOptions(metric="exact_match"))
    assert [(each.step, each.docs) for each in found.steps] == [(1, 12), (2, 12), (3, 12), (4, 12)]
    assert first_apart(found.steps) == 3
    assert found.to_dict()["first"] == 3
    assert "decided in steps 1 to 2" in findings(found).to_text()


def test_steps_stand_in_their_order_behind_their_metric(tmp_path: Path) -> None:
    """Also where later docs have more of them."""
    task = write_task(tmp_path, TASK % "", [{"n": n} for n in (1, 2, 4)], tools=TOOLS % "str(self.n)")
    run(task, Scripted(giving_up_late, "late"), tmp_path)
    scores = branch(task, Scripted(counting, "counts"), tmp_path, at="each").tasks["counting"].scores
    of_matches = [key.metric for key in scores if "exact_match" in key.metric]
    assert of_matches == ["exact_match", *(from_step("exact_match", step) for step in range(1, 6))]
    assert list(scores)[: len(of_matches)] == [MetricKey(name, "none") for name in of_matches]


def giving_up_late(messages: Any, draw: int) -> Any:
    name, arguments = counting(messages, draw)
    return (name, {"answer": "?"}) if name == "submit" else (name, arguments)


def test_where_nothing_decides_no_step_is_named(tmp_path: Path) -> None:
    task = task_in(tmp_path)
    run(task, Scripted(giving_up, "gives up"), tmp_path)
    branch(task, Scripted(counting, "counts"), tmp_path, at="each")
    found = explain(open_run(tmp_path / "run"), open_run(tmp_path / "branch"), ExplainOptions(metric="exact_match"))
    assert first_apart(found.steps) is None
    assert [each.estimate.value for each in found.steps] == [1.0, 1.0]
    assert found.to_dict()["first"] is None


@pytest.mark.parametrize("repeats", [1, 2])
def test_a_trajectory_that_failed_is_left_before_it_failed(tmp_path: Path, repeats: int) -> None:
    def breaking(messages: Any, draw: int) -> Any:
        return ("spoil", {}) if results(messages) and draw == 0 else counting(messages, draw)

    breaks = SPOILT.replace("self.n = 100", "raise RuntimeError('it broke')")
    sampled = f"repeats: {repeats}\ngeneration_kwargs: {{do_sample: true, temperature: 1.0}}\n"
    task = write_task(tmp_path, TASK % "" + sampled, DOCS, tools=breaks % "str(self.n)")
    before = run(task, Scripted(breaking, "breaks"), tmp_path).tasks["counting"].health
    assert before.failed == (2 if repeats == 1 else 0)
    after = branch(task, counting, tmp_path, at=2)
    assert (after.tasks["counting"].health.failed, score(after)) == (0, 1.0)
    assert [len(draws) for draws in trajectories(tmp_path / "branch")] == [repeats] * 2
    stays = branch(task, counting, tmp_path, at=9, to="stays")
    assert stays.tasks["counting"].health.failed == before.failed


def test_one_of_several_calls_of_a_step_is_replaced(tmp_path: Path) -> None:
    def twice(messages: Any, draw: int) -> Any:
        return ("submit", {"answer": last_result(messages)}) if results(messages) else [("add", {}), ("add", {})]

    task = task_in(tmp_path)
    run(task, Scripted(twice, "twice"), tmp_path)
    with pytest.raises(ConfigError, match="made 2 calls"):
        branch(
            task, Scripted(twice, "twice"), tmp_path, replace=replaced(tmp_path, {"doc": 0, "step": 1, "result": "3"})
        )
    row = {"doc": 0, "step": 1, "call": 2, "result": "3"}
    with pytest.raises(ConfigError, match="replaced twice"):
        branch(task, Scripted(twice, "twice"), tmp_path, replace=replaced(tmp_path, row, row))
    assert score(branch(task, Scripted(twice, "twice"), tmp_path, replace=replaced(tmp_path, row))) == 1.0
    ((changed,), _) = trajectories(tmp_path / "branch")
    assert [call["result"] for call in changed["calls"]] == ["1", "3"]
