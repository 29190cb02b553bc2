"""An answer is reused only for the model that gave it."""

from __future__ import annotations

import json
import random
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest
from tests.models.openai.faulty_server import FaultyServer

import assay
from assay.config import RunConfig
from assay.errors import ConfigError, ModelError
from assay.models import Identity, difference
from assay.models.identity import PROBES, ProbeReply
from assay.models.ngram import NgramLM

TASK = """
task: said
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/said.jsonl}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{q}}}}"
doc_to_target: "{{{{a}}}}"
generation_kwargs: {{until: ["."], max_gen_toks: 8}}
metric_list: [{{metric: exact_match}}]
"""
DOCS = 6


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [{"q": f"The river number {i} is", "a": " w"} for i in range(DOCS)]
    (tmp_path / "said.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "said.yaml").write_text(TASK.format(folder=tmp_path))
    return tmp_path


def run(folder: Path, server: FaultyServer, **more: Any) -> Any:
    args = {"base_url": server.url, "model": "ngram", "backoff": 0.01, "timeout": 5}
    config = {"model": "local-completions", "model_args": args, "tasks": [str(folder / "said.yaml")]}
    return assay.evaluate(**{**config, "store": str(folder / "s.sqlite"), **more})


def today() -> str:
    return time.strftime("%Y-%m-%d", time.gmtime())


def asked(server: FaultyServer) -> int:
    """Requests of the task that reached the server."""
    return sum("river" in str(body["prompt"]) for body in server.bodies)


def test_the_same_server_is_not_asked_twice(folder: Path) -> None:
    with FaultyServer() as server:
        first = run(folder, server)
        again = run(folder, server)
    assert asked(server) == DOCS
    assert first.answers_from == f"{DOCS} computed"
    assert again.answers_from == f"0 computed, {DOCS} from the store (asked {today()}, same probes)"
    assert again.to_dict()["results"] == first.to_dict()["results"]


def test_another_model_behind_the_same_address_gives_its_own_answers(folder: Path) -> None:
    messages: list[str] = []
    with FaultyServer() as server:
        run(folder, server)
        server.model = NgramLM(order=3)
        other = run(folder, server, progress=Telling(messages))
        third = run(folder, server)
    assert asked(server) == 2 * DOCS
    assert other.answers_from.startswith(f"{DOCS} computed, none from the store (another model answers now: ")
    assert any("--reuse always" in text for text in messages)
    # What the new model answered has replaced the old answers, and is found again.
    assert third.answers_from == f"0 computed, {DOCS} from the store (asked {today()}, same probes)"
    assert third.to_dict()["results"] == other.to_dict()["results"]


def test_answers_of_two_models_are_never_mixed_after_a_stop(folder: Path) -> None:
    """A run over some docs with a new model must not make the old model's other answers look like the new one's."""
    with FaultyServer() as server:
        run(folder, server)
        server.model = NgramLM(order=3)
        run(folder, server, limit=2)
        whole = run(folder, server)
    assert whole.answers_from.startswith(f"{DOCS - 2} computed, 2 from the store")


def test_what_a_server_says_of_itself_counts(folder: Path) -> None:
    with FaultyServer() as server:
        server.listing = {"id": "ngram", "root": "/weights/step-1000", "created": 1}
        run(folder, server)
        server.listing = {"id": "ngram", "root": "/weights/step-1000", "created": 2}  # the moment of its start: no fact
        assert f"{DOCS} from the store" in run(folder, server).answers_from
        server.listing = {"id": "ngram", "root": "/weights/step-2000", "created": 2}
        other = run(folder, server)
    assert "its root was /weights/step-1000 and is now /weights/step-2000" in other.answers_from
    assert asked(server) == 2 * DOCS


def test_reuse_always_takes_the_answers_of_whoever_was_there(folder: Path) -> None:
    with FaultyServer() as server:
        run(folder, server)
        server.model = NgramLM(order=3)
        again = run(folder, server, reuse="always")
    assert asked(server) == DOCS
    assert again.answers_from == f"0 computed, {DOCS} from the store (asked {today()}, not checked: --reuse always)"


def test_a_server_that_is_switched_off_has_no_score(folder: Path) -> None:
    with FaultyServer() as server:
        run(folder, server)
    with pytest.raises(ModelError, match="--offline"):
        run(folder, server)


def test_offline_scores_what_is_kept_and_fails_the_rest(folder: Path) -> None:
    with FaultyServer() as server:
        run(folder, server, limit=4)
    kept = run(folder, server, offline=True)
    assert kept.answers_from == f"0 computed, 4 from the store (asked {today()}, not checked: --offline), 2 failed"
    assert kept.tasks["said"].health.failed == 2


def test_offline_takes_the_answers_of_one_model_only(folder: Path) -> None:
    with FaultyServer() as server:
        run(folder, server)
        server.model = NgramLM(order=3)
        run(folder, server, limit=2)
    kept = run(folder, server, offline=True)
    assert "2 from the store" in kept.answers_from
    assert f"{DOCS - 2} failed" in kept.answers_from


def test_answers_without_probes_are_asked_again(folder: Path) -> None:
    """Stores from before probes were kept do not say which model answered."""
    with FaultyServer() as server:
        run(folder, server)
        with sqlite3.connect(folder / "s.sqlite") as connection:
            connection.execute("DROP TABLE facts")
        again = run(folder, server)
    assert asked(server) == 2 * DOCS
    assert again.answers_from == f"{DOCS} computed"


def test_a_server_that_refuses_log_probabilities_is_probed_by_its_text(folder: Path) -> None:
    def refuse(seen: int, body: dict[str, Any]) -> str | None:
        return "400" if "logprobs" in body else None

    with FaultyServer(refuse) as server:
        run(folder, server)
        assert "same probes" in run(folder, server).answers_from
        server.model = NgramLM(order=3)
        assert "another model" in run(folder, server).answers_from


def test_fresh_and_offline_exclude_each_other() -> None:
    with pytest.raises(ConfigError, match="cannot be combined"):
        RunConfig(fresh=True, offline=True)


# -- how much difference is another model ----------------------------------------------------------------------------


def replies(rng: random.Random, noise: float, shift: float = 0.0) -> tuple[ProbeReply, ...]:
    """Log-probabilities of a server whose sums vary by `noise`; a model that was trained on is shifted."""
    tops = tuple({t: -0.5 * i + rng.gauss(shift * (i + 1), noise) for i, t in enumerate("abcde")} for _ in range(4))
    return (ProbeReply("same text", tops),)


def seen(rng: random.Random, times: int, noise: float, shift: float = 0.0) -> Identity:
    one = Identity(replies=tuple(replies(rng, noise, shift) for _ in PROBES))
    for _ in range(times - 1):
        one = one.joined(Identity(replies=tuple(replies(rng, noise, shift) for _ in PROBES)))
    return one


def test_a_server_that_varies_is_not_called_another_model() -> None:
    rng = random.Random(7)
    alarms = sum(difference(seen(rng, 3, 0.05), seen(rng, 1, 0.05)) is not None for _ in range(200))
    assert alarms == 0


def test_a_model_that_was_trained_on_is_told_from_one_that_varies() -> None:
    rng = random.Random(7)
    missed = sum(difference(seen(rng, 3, 0.02), seen(rng, 1, 0.02, shift=0.1)) is None for _ in range(200))
    assert missed == 0


def test_rounding_is_no_difference_and_one_other_letter_is() -> None:
    base = tuple((ProbeReply("Paris", ({"P": -0.1},)),) for _ in PROBES)
    near = tuple((ProbeReply("Paris", ({"P": -0.1004},)),) for _ in PROBES)
    other = ((ProbeReply("Parma"),), *base[1:])
    assert difference(Identity(replies=base), Identity(replies=near)) is None
    # A server that was started again with other slots reads another length, and is the same model.
    sizes = [Identity({"meta.n_ctx": n, "meta.n_params": 135}, replies=base) for n in (2048, 8192)]
    assert difference(*sizes) is None
    assert "Parma" in str(difference(Identity(replies=base), Identity(replies=other)))


def test_an_identity_comes_back_from_json() -> None:
    one = Identity({"id": "m"}, ("fp_1",), ((ProbeReply("x", ({"x": -0.25},)), ProbeReply("y")),))
    assert Identity.from_json(one.to_json()) == one


class Telling:
    def __init__(self, messages: list[str]) -> None:
        self.message = messages.append

    def stage(self, text: str) -> None: ...

    def update(self, counts: Any) -> None: ...
