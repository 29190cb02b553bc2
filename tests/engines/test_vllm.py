"""Every kind of request on the real engine: what it says is what `hf` says on the same weights."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.engines.conftest import FLOAT32, Load

from assay.errors import ConfigError
from assay.instance import Instance
from assay.models import load_model

DISTANCE = 1e-4
"""Log-likelihoods of two engines in float32, which add in another order."""
CHOICES = [
    " Paris.",
    " London.",
    " a city in the south of France.",
    " Paris, of course, and it has been for centuries.",
    " 7",
]
QUESTIONS = [
    f"Question {i}: {text}\nAnswer:" for i, text in enumerate(["What is the capital of France?"] * 3 + ["2 + 5 ="] * 3)
]
TEXT = "The river begins in a field that nobody would look at twice, and ends in a sea that everybody does. "


def ask(kind: str, *arguments: Any) -> Instance:
    return Instance(kind, {}, arguments, 0)  # type: ignore[arg-type]


def answers(model: Any, kind: str, requests: Sequence[Instance], draws: Sequence[int] | None = None) -> list[Any]:
    found = dict(model.stream(kind, requests, draws or [0] * len(requests)))
    assert sorted(found) == list(range(len(requests)))
    assert not any(answer.failure for answer in found.values())
    return [found[position].answer for position in range(len(requests))]


def test_likelihoods(vllm: Any, hf: Any) -> None:
    pairs = [(question, choice) for question in QUESTIONS for choice in CHOICES]
    pairs += [("", "Salt"), (TEXT * 8, " The end."), ("x", TEXT * 3)]
    requests = [ask("loglikelihood", *pair) for pair in pairs]
    found, expected = (answers(model, "loglikelihood", requests) for model in (vllm, hf))
    assert [value for value, _ in found] == pytest.approx([value for value, _ in expected], abs=DISTANCE, rel=1e-6)
    assert [greedy for _, greedy in found] == [greedy for _, greedy in expected]


def test_texts_longer_than_the_context_are_scored_in_the_same_windows(vllm: Any, weights: str) -> None:
    # Of vLLM's context one place is generated into, and one is the context's.
    hf = load_model("hf", {"pretrained": weights, "dtype": "float32", "max_length": vllm.max_length - 2})
    requests = [ask("loglikelihood_rolling", text) for text in (TEXT, TEXT * 60, "a", "")]
    found, expected = (answers(model, "loglikelihood_rolling", requests) for model in (vllm, hf))
    assert found == pytest.approx(expected, abs=5 * DISTANCE, rel=1e-6)


def test_labels(vllm: Any, hf: Any) -> None:
    requests = [ask("letters", question, [" A", " B", " C", " D"]) for question in QUESTIONS]
    found, expected = (answers(model, "letters", requests) for model in (vllm, hf))
    for one, other in zip(found, expected, strict=True):
        assert list(one.logprobs) == pytest.approx(list(other.logprobs), abs=DISTANCE)


@pytest.mark.parametrize("until", [[], ["\n"], [".", "is"]])
def test_greedy_text(vllm: Any, hf: Any, until: list[str]) -> None:
    requests = [
        ask("generate_until", text, {"until": until, "max_gen_toks": 24}) for text in [*QUESTIONS, TEXT, "1 2 3 4"]
    ]
    assert answers(vllm, "generate_until", requests) == answers(hf, "generate_until", requests)


def test_sampled_draws_are_seeded_and_cut_at_stop_strings(vllm: Any) -> None:
    wish = {"until": ["\n", "."], "max_gen_toks": 24, "temperature": 0.9, "top_p": 0.95}
    requests = [ask("generate_until", "Once upon a time", wish)] * 6
    found = answers(vllm, "generate_until", requests, list(range(6)))
    assert len(set(found)) > 3
    assert not any("\n" in text or "." in text for text in found)
    assert answers(vllm, "generate_until", requests[:1], [4]) == found[4:5]


TOOLS = """{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}{% if tools %}Tools: {{ tools | map(attribute='function.name') | join(', ') }}
{% endif %}{% if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking %}<think>
{% endif %}{% endif %}"""


def test_chats_with_tools_and_thoughts_are_the_prompts_and_answers_of_hf(weights: str, load: Load) -> None:
    more = {"chat_template": TOOLS, "enable_thinking": True, "think_end_token": "the"}
    ours = load(**more)
    other = load_model("hf", {"pretrained": weights, "dtype": "float32", "max_length": 1024, **more})
    tools = [
        {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": {"type": "object"}}}
    ]
    chat = [{"role": "user", "content": "What is the capital of France?"}]
    prompts = [model.to_context(chat, tools=tools) for model in (ours, other)]
    assert prompts[0] == prompts[1]
    assert "Tools: add" in prompts[0]
    assert prompts[0].endswith("<think>\n")
    request = ask("generate_until", prompts[0], {"until": [], "max_gen_toks": 40})
    found, expected = (dict(model.stream("generate_until", [request], [0]))[0] for model in (ours, other))
    assert found.reasoning
    assert (found.answer, found.reasoning) == (expected.answer, expected.reasoning)


def test_an_adapter_answers_as_through_hf(weights: str, load: Load, tmp_path: Path, hf: Any) -> None:
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.manual_seed(1)
    base = AutoModelForCausalLM.from_pretrained(weights, dtype=torch.float32)
    adapted = get_peft_model(base, LoraConfig(r=8, target_modules=["q_proj", "v_proj"], init_lora_weights=False))
    adapted.save_pretrained(tmp_path / "adapter")
    requests = [ask("loglikelihood", question, choice) for question in QUESTIONS for choice in CHOICES]
    other = load_model("hf", {"pretrained": weights, "dtype": "float32", "peft": str(tmp_path / "adapter")})
    ours = load(lora_local_path=str(tmp_path / "adapter"))
    found, expected, plain = (
        [value for value, _ in answers(model, "loglikelihood", requests)] for model in (ours, other, hf)
    )
    assert found == pytest.approx(expected, abs=10 * DISTANCE, rel=1e-5)
    assert max(abs(one - two) for one, two in zip(found, plain)) > 0.1
    assert ours.fingerprint() != load_model("vllm", {"pretrained": weights, **FLOAT32}).fingerprint()


def test_two_engines_answer_as_one(vllm: Any, load: Load) -> None:
    two = load(data_parallel_size=2)
    requests = [ask("loglikelihood", question, choice) for question in QUESTIONS for choice in CHOICES]
    found, expected = (answers(model, "loglikelihood", requests) for model in (two, vllm))
    assert [value for value, _ in found] == pytest.approx([value for value, _ in expected], abs=DISTANCE)
    assert two.fingerprint() == vllm.fingerprint()
    assert all("EngineCore" in log.read_text() for log in two.logs)


def test_pictures_are_refused_before_the_first_request(weights: str, tmp_path: Path) -> None:
    import assay

    (tmp_path / "docs.jsonl").write_text('{"q": "What is this?", "picture": "x.png", "a": "a"}\n')
    (tmp_path / "own.yaml").write_text(
        json.dumps(
            {
                "task": "own",
                "dataset_path": "json",
                "dataset_kwargs": {"data_files": {"test": str(tmp_path / "docs.jsonl")}},
                "test_split": "test",
                "output_type": "generate_until",
                "doc_to_text": "{{q}}",
                "doc_to_image": ["picture"],
                "doc_to_target": "a",
            }
        )
    )
    with pytest.raises(ConfigError, match="image"):
        assay.evaluate(
            model="vllm", model_args={"pretrained": weights, **FLOAT32}, tasks=["own"], include_path=[str(tmp_path)]
        )


# -- whole runs --------------------------------------------------------------------------------------------------------


def command(weights: str, folder: Path, *more: str) -> list[str]:
    arguments = ",".join(f"{name}={value}" for name, value in {"pretrained": weights, **FLOAT32}.items())
    words = [
        "run",
        "--model",
        "vllm",
        "--model_args",
        arguments,
        "--tasks",
        "demo_arithmetic_words",
        "--num_fewshot",
        "3",
    ]
    return [
        sys.executable,
        "-m",
        "assay",
        *words,
        "--run_dir",
        str(folder / "run"),
        "--store",
        str(folder / "s.db"),
        *more,
    ]


def test_a_run_prints_its_own_lines_and_keeps_the_engine_s(weights: str, tmp_path: Path) -> None:
    done = subprocess.run(command(weights, tmp_path, "--limit", "10"), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    for words in ("EngineCore", "INFO", "WARNING", "killing", "Traceback"):
        assert words not in done.stdout + done.stderr
    log = (tmp_path / "run" / "engine.log").read_text()
    assert "INFO" in log
    assert "killing" not in log
    assert not engines_left()


def test_a_killed_run_goes_on_and_gives_the_same(weights: str, tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    assert subprocess.run(command(weights, tmp_path / "whole"), capture_output=True).returncode == 0
    with subprocess.Popen(command(weights, tmp_path), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        wait_for(lambda: computed(tmp_path / "s.db") > 5)
        process.kill()
    wait_for(lambda: not engines_left())
    before = computed(tmp_path / "s.db")
    again = subprocess.run(command(weights, tmp_path), capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    counts = json.loads((tmp_path / "run" / "run.json").read_text())["counts"]
    assert counts["reused"] >= before
    assert counts["computed"] > 0
    assert scores(tmp_path) == scores(tmp_path / "whole")


def test_an_engine_that_dies_ends_the_run_with_a_clear_error_and_nothing_lost(weights: str, tmp_path: Path) -> None:
    with subprocess.Popen(
        command(weights, tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        wait_for(lambda: computed(tmp_path / "s.db") > 5)
        for engine in engines_left("EngineCore"):
            os.kill(engine, signal.SIGKILL)
        _, told = process.communicate()
    assert process.returncode == 3
    assert "vLLM stopped" in told
    assert "Traceback" not in told
    assert not engines_left()
    before = computed(tmp_path / "s.db")
    assert subprocess.run(command(weights, tmp_path), capture_output=True).returncode == 0
    assert json.loads((tmp_path / "run" / "run.json").read_text())["counts"]["reused"] >= before


def test_two_replicas_on_a_cluster_answer_as_one_engine(weights: str, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    (tmp_path / "one").mkdir()
    assert subprocess.run(command(weights, tmp_path / "one", "--limit", "30"), capture_output=True).returncode == 0
    more = ["--limit", "30", "--executor", "ray", "--replicas", "2", "--cpus_per_replica", "1"]
    done = subprocess.run(command(weights, tmp_path, *more), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert scores(tmp_path) == scores(tmp_path / "one")


def scores(folder: Path) -> Any:
    return json.loads((folder / "run" / "results.json").read_text())["results"]


def computed(store: Path) -> int:
    from assay.store import ResponseStore

    if not store.exists():
        return 0
    with ResponseStore(store) as opened:
        return len(opened)


def engines_left(title: str = "assay.models.vllm.serving") -> list[int]:
    """Processes of an engine: ours, or by its title the one that vLLM makes for itself."""
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                if title.encode() in (place / "cmdline").read_bytes():
                    found.append(int(place.name))
            except OSError:
                continue
    return found


def wait_for(condition: Callable[[], Any]) -> None:
    """pytest's own limit ends a wait for ever."""
    while not condition():
        time.sleep(0.1)
