"""`--model gguf`: llama.cpp's own server, started and ended by us, against the same float32 weights through `hf`."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from tests.models.openai.llama_server import write_model
from tests.models.openai.test_forced import choices, pair, rolling
from tests.models.openai.test_real_server import arc_docs, ask

import assay
from assay.errors import AssayError, ConfigError, ModelError, ModelFileError
from assay.instance import Instance
from assay.models import check_model, load_model
from assay.models.base import LM
from assay.show import run_findings

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    write_model(path)
    return path


@pytest.fixture(scope="module")
def model(path: Path) -> Iterator[Any]:
    model = load_model("gguf", {"pretrained": str(path), "threads": 1})
    yield model
    model.close()


@pytest.fixture(scope="module")
def hf(path: Path) -> LM:
    return load_model("hf", {"pretrained": str(path), "dtype": "float32", "max_length": 511})


def test_it_answers_every_kind_of_request_as_hf_does(model: LM, hf: LM) -> None:
    requests = [*choices(8), pair("", "the sun")]
    found, expected = model.loglikelihood(requests), hf.loglikelihood(requests)
    assert max(abs(one[0] - two[0]) for one, two in zip(found, expected)) < 1e-3
    texts = rolling(["the sun gives light", "é 😀", ""])
    assert model.loglikelihood_rolling(texts) == pytest.approx(hf.loglikelihood_rolling(texts), abs=1e-3)
    prompts = [ask(f"Question {i} about the weather") for i in range(6)]
    assert [*model.generate_until(prompts)] == [*hf.generate_until(prompts)]
    labels = [Instance("letters", {}, ("Is it A or B?", ["A", "B"]), 0)]
    [(_, here)], [(_, there)] = (list(each.stream("letters", labels, [0])) for each in (model, hf))
    assert [score for score, _ in here.answer] == pytest.approx([score for score, _ in there.answer], abs=1e-3)


def test_what_it_is_says_by_whose_kernels_it_computes(model: Any, hf: LM, path: Path) -> None:
    one, two = model.info(), hf.info()
    assert (one.details["gguf"], two.details["gguf"]) == ("llama.cpp", "dequantised")
    assert (one.num_parameters, one.max_length) == (two.num_parameters, 512)
    assert one.fingerprint.startswith("llama.cpp:")
    assert one.chat_template == model.chat_template()
    assert model.apply_chat_template([{"role": "user", "content": "hi"}]) == "<|im_start|>user\nhi<|im_end|>\n"


def test_a_file_without_a_chat_template_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server would use a template of its own."""
    import gguf

    monkeypatch.setattr(gguf.GGUFWriter, "add_chat_template", lambda *_: None)
    write_model(tmp_path / "base.gguf")
    model = load_model("gguf", {"pretrained": str(tmp_path / "base.gguf"), "num_concurrent": 1})
    assert model.info().chat is None
    with pytest.raises(ModelError, match="chat template"):
        model.apply_chat_template([{"role": "user", "content": "hi"}])
    model.close()


def test_only_what_changes_numbers_changes_the_fingerprint(model: LM, path: Path) -> None:
    def fingerprint(**arguments: Any) -> str:
        other = load_model("gguf", {"pretrained": str(path), **arguments})
        other.close()
        return other.fingerprint()

    assert fingerprint(num_concurrent=1) == model.fingerprint()
    assert fingerprint(threads=1, cache_type="f16", flash_attention=True) != model.fingerprint()


def evaluate(model: str, path: Path, place: Path) -> assay.Results:
    data = str(place / "hub") if (place / "hub").exists() else arc_docs(place)
    return assay.evaluate(
        model=model,
        model_args={"pretrained": str(path)} | ({"threads": 1} if model == "gguf" else {}),
        tasks=["arc_easy"],
        num_fewshot=0,
        data_dir=data,
        store=str(place / "store.sqlite"),
        output_path=str(place / "out"),
        bootstrap_iters=0,
    )


def engines() -> set[str]:
    """Numbers of the servers that are children of this process."""
    found = subprocess.run(
        ["ps", "--ppid", str(os.getpid()), "-o", "pid=,args="], capture_output=True, text=True, check=False
    ).stdout
    return {line.split()[0] for line in found.splitlines() if "llama_cpp.serving" in line}


def test_a_run_starts_and_ends_the_server_and_says_so_in_its_table(path: Path, tmp_path: Path) -> None:
    before = engines()
    there, here = evaluate("gguf", path, tmp_path), evaluate("hf", path, tmp_path)
    assert engines() == before
    assert there.tasks["arc_easy"].health.failed == 0
    assert [score.estimate.value for score in there.tasks["arc_easy"].scores.values()] == [
        score.estimate.value for score in here.tasks["arc_easy"].scores.values()
    ]
    for result, kind in ((there, "llama.cpp"), (here, "dequantised")):
        assert result.path is not None
        stored = json.loads((Path(result.path) / "run.json").read_text())["model"]
        assert stored["gguf"] == kind
        assert f"GGUF, {kind}" in run_findings(result).title
    assert there.path is not None
    assert (Path(there.path) / "engine.log").exists()


def test_answers_that_are_stored_start_no_server(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = evaluate("gguf", path, tmp_path)
    monkeypatch.setattr("assay.models.llama_cpp.model.EngineProcess", None)
    again = evaluate("gguf", path, tmp_path)
    assert [score.estimate for score in again.tasks["arc_easy"].scores.values()] == [
        score.estimate for score in first.tasks["arc_easy"].scores.values()
    ]


def test_a_server_that_dies_in_the_middle_is_an_error_that_says_so(path: Path) -> None:
    model: Any = load_model("gguf", {"pretrained": str(path), "threads": 1})
    requests = choices(30)
    stream = model.stream("loglikelihood", requests, [0] * len(requests))
    answered = [next(stream) for _ in range(4)]
    os.kill(model.process._process.pid, signal.SIGKILL)
    with pytest.raises(ModelError, match=r"llama\.cpp stopped") as caught:
        answered.extend(stream)
    assert str(model.logs[0]) in str(caught.value)
    assert all(answer.failure is None for _, answer in answered)
    assert 4 <= len(answered) < len(requests)
    model.close()


def test_weights_that_cannot_be_loaded_are_an_error_that_says_why(path: Path, tmp_path: Path) -> None:
    (tmp_path / "cut.gguf").write_bytes(path.read_bytes()[:20_000])
    with pytest.raises(ModelError, match=r"llama\.cpp did not start"):
        load_model("gguf", {"pretrained": str(tmp_path / "cut.gguf")})


@pytest.mark.parametrize(
    ("arguments", "error", "named"),
    [
        ({}, ConfigError, "pretrained"),
        ({"pretrained": "org/model"}, ConfigError, ".gguf"),
        ({"pretrained": "nowhere.gguf"}, ModelFileError, "nowhere.gguf"),
        ({"cache_type": "f33"}, ConfigError, "f32"),
        ({"n_ctx": 512}, ConfigError, "n_ctx"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_loaded(
    path: Path, arguments: dict[str, Any], error: type[AssayError], named: str
) -> None:
    given = arguments if not arguments or "pretrained" in arguments else {"pretrained": str(path), **arguments}
    with pytest.raises(error) as caught:
        check_model("gguf", given)
    assert named in str(caught.value)


def test_a_missing_package_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "xllamacpp" else found(name))
    with pytest.raises(ConfigError, match="xllamacpp"):
        check_model("gguf", {"pretrained": str(path)})


def test_the_server_ends_with_a_run_that_is_killed(path: Path) -> None:
    begin = f"""
import time
from assay.models import load_model
print(load_model("gguf", {{"pretrained": {str(path)!r}}}).process._process.pid, flush=True)
time.sleep(600)"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", begin], env=environment, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        server = run.stdout.readline().strip()
        run.send_signal(signal.SIGKILL)
    wait_for(
        lambda: not os.path.exists(f"/proc/{server}") or "Z" in Path(f"/proc/{server}/stat").read_text().split()[2]
    )


def wait_for(done: Callable[[], bool]) -> None:
    """pytest's own limit ends a wait for ever."""
    while not done():
        time.sleep(0.05)


@pytest.mark.parametrize("key", [None, "sk-the-users-own-key"])
def test_its_server_listens_on_loopback_and_answers_its_run_alone(
    model: Any, key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-the-users-own-key")
    assert model.server_root.startswith("http://127.0.0.1:")
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
    for path, body in (("/v1/completions", b'{"prompt": "a", "max_tokens": 1}'), ("/tokenize", b'{"content": "a"}')):
        with pytest.raises(HTTPError) as refused:
            urlopen(Request(model.server_root + path, body, headers))
        assert refused.value.code == 401
    with pytest.raises(HTTPError):
        urlopen(Request(f"{model.server_root}/slots", headers=headers))
    assert "sk-the-users-own-key" not in str(model.transport.settings.headers)
