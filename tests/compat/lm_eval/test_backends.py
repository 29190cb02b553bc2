"""`--model lm_eval:NAME`: backends of a real lm-evaluation-harness, of both lines, in a process that has it on its path."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.models.openai.faulty_server import FaultyServer
from tests.parity.goldens import tasks_directory as older
from tests.parity.test_runs_05 import tasks_directory as newer

import assay
from assay.errors import MissingPackage
from assay.models import load_model

RUN = """
import json, sys
import assay
from assay.errors import AssayError

shared = dict(tasks=sys.argv[4].split(","), include_path=sys.argv[3], include_defaults=False, bootstrap_iters=0)
for number in range(2):
    found = assay.evaluate(
        model=sys.argv[1], model_args=json.loads(sys.argv[2]), store=sys.argv[3] + "/store.sqlite",
        run_dir=f"{sys.argv[3]}/run{number}", **shared,
    )
    scores = {f"{name} {key.metric}": one.estimate.value for name, task in found.tasks.items() for key, one in task.scores.items()}
    failed = {name: task.health.failed for name, task in found.tasks.items()}
    print(json.dumps({"failed": failed, "scores": scores, "from": found.answers_from}))
"""


def site(line: str) -> Path:
    found = older() if line == "0.4" else newer()
    if found is None:
        pytest.skip(f"no lm-evaluation-harness {line} beside the tests")
    return found.parents[1] if found.name == "tasks" else found


def environment(line: str) -> dict[str, str]:
    paths = [str(Path(__file__).parents[3] / "src"), str(site(line))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}


def python(line: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: the package must not come into this one."""
    words = [sys.executable, "-W", "ignore", *arguments]
    return subprocess.run(words, capture_output=True, text=True, env=environment(line), check=False)


def write_tasks(folder: Path, docs: int = 4) -> None:
    rows = [{"q": f"What is {n}?", "choices": ["a", "bb"], "answer": n % 2, "page": "Some words."} for n in range(docs)]
    (folder / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    head = f"dataset_path: json\ndataset_kwargs: {{data_files: {{test: {folder / 'docs.jsonl'}}}}}\ntest_split: test\n"
    bodies = {
        "choose": "output_type: multiple_choice\ndoc_to_text: q\ndoc_to_choice: choices\ndoc_to_target: answer\n",
        "write": "output_type: generate_until\ndoc_to_text: q\ndoc_to_target: page\ngeneration_kwargs: {max_gen_toks: 4}\n",
        "text": "output_type: loglikelihood_rolling\ndoc_to_text: ''\ndoc_to_target: page\n",
    }
    for name, body in bodies.items():
        (folder / f"{name}.yaml").write_text(f"task: {name}\n{head}{body}")


def run_twice(
    line: str, folder: Path, model: str, arguments: dict[str, Any], tasks: str = "choose,write,text"
) -> list[dict[str, Any]]:
    write_tasks(folder)
    (folder / "run.py").write_text(RUN)
    done = python(line, str(folder / "run.py"), model, json.dumps(arguments), str(folder), tasks)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"failed"')]


def check(first: dict[str, Any], again: dict[str, Any], answers: int = 13) -> None:
    """Every request was answered, and the second run took every answer from the store."""
    assert set(first["failed"].values()) == {0}
    assert again["scores"] == first["scores"]
    assert first["from"] == f"{answers} computed"
    assert again["from"].startswith(f"0 computed, {answers} from the store")


@pytest.mark.parametrize("line", ["0.4", "0.5"])
def test_a_backend_answers_every_kind_of_request(line: str, tmp_path: Path) -> None:
    check(*run_twice(line, tmp_path, "lm_eval:dummy", {}))


@pytest.mark.parametrize("line", ["0.4", pytest.param("0.5", marks=pytest.mark.wide)])  # the line that people have
def test_its_completions_backend_asks_a_server_through_our_store(line: str, tmp_path: Path) -> None:
    """What it cannot do, scoring without a tokenizer, is an error in its own words and not a traceback."""
    with FaultyServer() as server:
        arguments = {"base_url": f"{server.url}/completions", "model": "ngram", "tokenizer_backend": None}
        arguments |= {"tokenized_requests": False}
        check(*run_twice(line, tmp_path, "lm_eval:local-completions", arguments, "write"), answers=4)
        asked = {body["prompt"][0] if isinstance(body["prompt"], list) else body["prompt"] for body in server.bodies}
        assert (len(server.bodies), asked) == (4, {f"What is {n}?" for n in range(4)})
        words = ["--model", "lm_eval:local-completions", "--model_args", json.dumps(arguments)]
        words += ["--tasks", "choose", "--include_path", str(tmp_path), "--store", str(tmp_path / "store.sqlite")]
        done = python(line, "-m", "assay", "run", *words, "--output_path", str(tmp_path / "runs"))
    assert done.returncode == 3
    assert "of lm-evaluation-harness: AssertionError: Tokenizer is required" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("line", ["0.4", pytest.param("0.5", marks=pytest.mark.wide)])
@pytest.mark.parametrize("at_once", [1, pytest.param(4, marks=pytest.mark.wide)])
def test_a_run_that_is_killed_goes_on_and_asks_nothing_twice(line: str, at_once: int, tmp_path: Path) -> None:
    """All docs are one call to the backend, which is killed in the middle of it."""
    docs, kill_at, pause = 40 * at_once, 30 * at_once, 0.05
    write_tasks(tmp_path, docs)
    with FaultyServer(delay=pause) as server:
        arguments = {"base_url": f"{server.url}/completions", "model": "ngram", "tokenizer_backend": None}
        arguments |= {"tokenized_requests": False, "num_concurrent": at_once, "max_retries": 1}

        def words(run: str) -> list[str]:
            asked = ["--model", "lm_eval:local-completions", "--model_args", json.dumps(arguments), "--tasks", "write"]
            places = ["--include_path", str(tmp_path), "--store", str(tmp_path / f"{run}.sqlite")]
            return ["-m", "assay", "run", *asked, *places, "--run_dir", str(tmp_path / run)]

        killed = subprocess.Popen(
            [sys.executable, "-W", "ignore", *words("run")],
            env=environment(line),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while len(server.bodies) < kill_at and killed.poll() is None:
            time.sleep(0.005)
        killed.kill()
        assert killed.wait() == -9
        before = len(server.bodies)
        assert kill_at <= before < docs
        again = python(line, *words("run"))
        assert again.returncode == 0, again.stderr[-2000:]
        twice = len(server.bodies) - docs
        server.delay = 0.0
        whole = python(line, *words("whole"))
    # Under way when it was killed, or answered and not yet on the disk, which half a second is enough for.
    assert 0 <= twice <= (1 + 0.5 / pause) * at_once
    assert whole.returncode == 0, whole.stderr[-2000:]
    assert scores_of(tmp_path / "run") == scores_of(tmp_path / "whole")


def scores_of(run: Path) -> dict[str, Any]:
    results: dict[str, Any] = json.loads((run / "results.json").read_text())["results"]
    return results


@pytest.mark.wide
@pytest.mark.parametrize("line", ["0.4", "0.5"])
def test_its_hf_backend_scores_a_tiny_model_as_ours_does(line: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from tests.models.hf.conftest import make_network, make_tokenizer

    folder = tmp_path / "tiny"
    make_network("llama").save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    first, again = run_twice(line, tmp_path, "lm_eval:hf", {"pretrained": str(folder), "device": "cpu"})
    check(first, again)
    ours = assay.evaluate(
        model="hf",
        model_args={"pretrained": str(folder)},
        tasks=["choose", "text"],
        include_path=[str(tmp_path)],
        include_defaults=False,
        store=str(tmp_path / "ours.sqlite"),
        bootstrap_iters=0,
    )
    assert ours["choose"]["acc"].value == first["scores"]["choose acc"]
    assert ours["text"]["word_perplexity"].value == pytest.approx(first["scores"]["text word_perplexity"], rel=1e-4)


def test_an_unknown_backend_is_answered_with_the_nearest() -> None:
    done = python("0.5", "-m", "assay", "run", "--model", "lm_eval:dumy", "--tasks", "demo_agreement", "--limit", "1")
    assert done.returncode == 2
    assert "has no model 'dumy'" in done.stderr
    assert "Did you mean dummy?" in done.stderr
    assert "Traceback" not in done.stderr


MISSING = """
import json, logging, sys
from assay.errors import AssayError
from assay.models import load_model

logging.disable(logging.CRITICAL)
try:
    load_model(f"lm_eval:{sys.argv[1]}", {"pretrained": "x"})
except AssayError as error:
    print(json.dumps([type(error).__name__, error.message, error.hint]))
"""
NEEDS = {"anthropic-completions": "anthropic", "vllm": "vllm", "sglang": "sglang", "mamba_ssm": "mamba"}
"""Of each family one: providers, engines, architectures of their own. `make test` asks the first, which imports no torch."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.wide if at else ()) for at, name in enumerate(NEEDS)]
)
def test_a_missing_package_of_a_backend_is_named(name: str) -> None:
    if find_spec(NEEDS[name]) is not None:
        pytest.skip(f"{NEEDS[name]} is installed here")
    done = python("0.4", "-c", MISSING, name)
    kind, message, hint = json.loads(done.stdout.splitlines()[-1])
    assert (kind, f"the model 'lm_eval:{name}'" in message) == ("MissingPackage", True), done.stderr[-1000:]
    assert "nstall" in hint


@pytest.mark.wide  # the module imports transformers
@pytest.mark.parametrize("line", ["0.4", "0.5"])
def test_a_backend_that_its_list_names_wrongly_is_found_all_the_same(line: str) -> None:
    code = "from assay.compat.lm_eval.backends import backend_class\nprint(backend_class('ipex').__name__)"
    done = python(line, "-c", code)
    assert done.stdout.strip() == "IPEXLM", done.stderr[-1000:]


def test_without_lm_evaluation_harness_the_error_says_what_to_install() -> None:
    if any((Path(place) / "lm_eval").is_dir() for place in sys.path):
        pytest.skip("lm-evaluation-harness is installed here")
    with pytest.raises(MissingPackage, match="which is not installed") as error:
        load_model("lm_eval:dummy")
    assert error.value.hint == "pip install lm-eval"
