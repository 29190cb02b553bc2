"""`assay selftest` without a neural network: every fault is caught by the check that is there for it, and by no other."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from click.testing import CliRunner
from tests.models import faulty_models
from tests.models.openai.faulty_server import SGLANG, VLLM, Dialect, FaultyServer

from assay.cli.selftest import command
from assay.errors import ModelError
from assay.models import LM, ModelInfo, load_model
from assay.models.ngram import NgramLM
from assay.models.selftest import Check, compare, requests, run_checks


def verdicts(lm: LM) -> dict[str, Check]:
    return {check.name: check for check in run_checks(lm)}


def failed(checks: dict[str, Check]) -> list[str]:
    return [name for name, check in checks.items() if check.passed is False]


def skipped(checks: dict[str, Check]) -> list[str]:
    return [name for name, check in checks.items() if check.passed is None]


# -- one fault each ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        (faulty_models.LosesTheSpace, "token boundary"),
        (faulty_models.LosesATurn, "chat round trip"),
        (faulty_models.ClosesTheAnswer, "chat round trip"),
        (faulty_models.RefusesTheAssistant, "chat round trip"),
        (faulty_models.KeepsTheStop, "stop strings"),
        (faulty_models.IgnoresTheStop, "stop strings"),
        (faulty_models.DrawsByPlace, "draws"),
    ],
)
def test_a_fault_fails_its_own_check_and_no_other(fault: type[LM], check: str) -> None:
    checks = verdicts(fault())
    assert failed(checks) == [check]
    assert not skipped(checks)
    assert checks[check].note or checks[check].difference


def test_a_sound_model_passes_every_check() -> None:
    checks = verdicts(load_model("ngram", {}))
    assert len(checks) == 6
    assert {check.passed for check in checks.values()} == {True}


# -- failures are not skipped -----------------------------------------------------------------------------------------


SCORED = ["one by one", "order", "token boundary"]


def test_a_failed_request_fails_the_check_that_asked_it_with_the_reason() -> None:
    checks = verdicts(faulty_models.FailsSome())
    assert failed(checks) == [*SCORED, "stop strings", "draws"]
    assert checks["order"].note == "4 of 24 requests failed: the moon is [/full]"
    assert checks["draws"].note == "2 of 12 requests failed: the moon is [/full]"


def test_a_request_that_was_left_out_is_a_failed_one() -> None:
    checks = verdicts(faulty_models.LeavesOneOut())
    assert failed(checks) == [*SCORED, "stop strings", "draws"]
    assert "no answer came" in checks["stop strings"].note


def test_a_score_that_is_not_finite_is_a_failure() -> None:
    checks = verdicts(faulty_models.GivesNaN())
    assert failed(checks) == SCORED
    assert checks["order"].note == "2 of 48 scores are not finite"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_equal_scores_that_are_not_finite_do_not_agree(value: float) -> None:
    scores = [-1.0] * (len(requests()) - 1)
    assert compare("x", [*scores, value], [*scores, value], 1e-3).passed is False
    assert compare("x", [value, *scores], [-1.0, *scores], 1e-3).passed is False


def test_a_backend_that_raises_anything_fails_and_the_other_checks_still_run() -> None:
    checks = verdicts(faulty_models.Raises())
    assert failed(checks) == SCORED
    assert checks["order"].note.startswith("TypeError")
    assert checks["draws"].passed


def test_own_checks_that_raise_fail() -> None:
    class OwnTrouble(NgramLM):
        def own_checks(self, tolerance: float) -> Iterator[Check]:
            yield Check("mine", True)
            raise ModelError("the second one broke")

    checks = verdicts(OwnTrouble())
    assert failed(checks) == ["the backend's own checks"]
    assert checks["mine"].passed
    assert checks["order"].passed


def test_a_model_that_never_says_a_word_fails_and_one_that_only_thinks_is_skipped() -> None:
    assert failed(verdicts(faulty_models.Silent())) == ["stop strings", "draws"]
    assert skipped(verdicts(faulty_models.Thinking())) == ["stop strings", "draws"]


# -- servers ----------------------------------------------------------------------------------------------------------


def served(kind: str, server: FaultyServer) -> dict[str, Check]:
    arguments = {"base_url": server.url, "model": "ngram", "backoff": 0.01, "max_retries": 1}
    lm = load_model(kind, arguments)
    try:
        return verdicts(lm)
    finally:
        lm.close()


def test_a_server_that_repeats_draws_only_when_they_are_alone_is_told_what_that_means() -> None:
    class Slots(faulty_models.DrawsByPlace):
        def info(self) -> ModelInfo:
            return replace(super().info(), computes_here=False)

    checks = verdicts(Slots())
    assert failed(checks) == []
    assert "a score over repeats cannot be had again" in checks["draws"].note


@pytest.mark.parametrize(
    ("kind", "echo", "not_there"),
    [
        ("local-completions", True, ["chat round trip"]),
        ("local-completions", False, ["likelihoods by echo", "likelihoods by token", *SCORED, "chat round trip"]),
        ("local-chat-completions", True, [*SCORED, "tool call"]),
    ],
)
def test_a_sound_server_is_spared_what_it_does_not_have(kind: str, echo: bool, not_there: list[str]) -> None:
    with FaultyServer(echo=echo) as server:
        checks = served(kind, server)
    assert not failed(checks)
    assert skipped(checks) == not_there


@pytest.mark.parametrize("dialect", [Dialect(), VLLM, SGLANG])
def test_an_echo_is_exact_where_a_token_is_worth_what_it_was_when_it_was_generated(dialect: Dialect) -> None:
    class Tempered(FaultyServer):
        """Echoes log-probabilities at another temperature than it generates with."""

        def _logprobs(self, prompt: bytes, generated: bytes) -> dict[str, Any]:
            said = super()._logprobs(prompt, generated)
            values = said["token_logprobs"]
            return {**said, "token_logprobs": [v and v / 2 for v in values[:-1]] + values[-1:]}

    with FaultyServer(dialect=dialect) as sound, Tempered(dialect=dialect) as tempered:
        found, wrong = (served("local-completions", server)["likelihoods by echo"] for server in (sound, tempered))
    assert found.passed
    assert found.difference == 0
    assert wrong.passed is False
    assert wrong.difference is not None
    assert wrong.difference > 0.05


@pytest.mark.parametrize(
    ("kind", "asked"),
    [
        ("local-completions", [*SCORED, "stop strings", "draws"]),
        ("local-chat-completions", ["stop strings", "draws"]),
    ],
)
def test_a_server_that_refuses_everything_fails_every_check_that_asks_it(kind: str, asked: list[str]) -> None:
    with FaultyServer(lambda seen, body: "400") as server:
        checks = served(kind, server)
    assert failed(checks) == asked
    assert all("HTTP 400: fault 400" in checks[name].note for name in asked)


# -- the command ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "code", "found"),
    [
        ("Sound", 0, {"order": "ok", "token boundary": "ok", "draws": "ok"}),
        ("LosesTheSpace", 1, {"order": "ok", "token boundary": "failed", "draws": "ok"}),
        ("FailsSome", 1, {"order": "failed", "chat round trip": "ok", "draws": "failed"}),
        ("CanDoNothing", 1, {"order": "skipped", "chat round trip": "skipped", "draws": "skipped"}),
    ],
)
def test_the_exit_code_and_the_table_say_what_failed(
    name: str, code: int, found: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    result = CliRunner().invoke(command, [f"{faulty_models.__file__}:{name}"])
    assert result.exit_code == code, result.output
    rows: dict[str, Any] = {}
    for line in result.output.splitlines():
        cells = re.split(" {2,}", line.strip())
        rows[cells[0]] = cells[1:]
    assert {check: rows[check][0] for check in found} == found
    if name == "FailsSome":
        assert rows["draws"][-1] == "2 of 12 requests failed: the moon is [/full]"


# -- at the terminal ---------------------------------------------------------------------------------------------------


def test_every_step_is_named_before_it_is_taken() -> None:
    shown = CliRunner().invoke(command, ["ngram"])
    steps = [line.removeprefix("checking: ") for line in shown.stderr.splitlines()]
    assert steps[0] == "loading the model"
    assert steps[2:-1] == ["one by one", "order", "token boundary", "chat round trip", "stop strings", "draws"]


def test_a_model_that_answers_at_random_is_told_apart_from_a_broken_one() -> None:
    shown = CliRunner().invoke(command, ["dummy"])
    assert shown.exit_code == 0, shown.output
    assert skipped(verdicts(load_model("dummy"))) == ["token boundary"]
    assert "answers at random" in " ".join(shown.stdout.split())
