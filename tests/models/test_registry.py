"""From `--model` to a model: names, files, ready objects, classes of lm-evaluation-harness."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.compat.lm_eval.model_adapter import AdaptedLM
from assay.errors import ConfigError, ModelError
from assay.instance import Instance, Response
from assay.models import LM, MODELS, load_model
from assay.models.dummy import DummyLM
from assay.models.ngram import NgramLM

LM_EVAL_STYLE = '''
class Foreign:
    """Written for another harness: other base class, other conventions, no stream."""

    def __init__(self, bias=0.0, batch_size=1, **kwargs):
        self.bias, self.batch_size, self.kwargs = float(bias), batch_size, kwargs

    @classmethod
    def create_from_arg_obj(cls, arg_dict, additional_config=None):
        return cls(**arg_dict, **{k: v for k, v in (additional_config or {}).items() if v is not None})

    def loglikelihood(self, requests, disable_tqdm=False):
        return [(self.bias - len(r.args[1]), True) for r in requests]

    def loglikelihood_rolling(self, requests, disable_tqdm=False):
        return [(-float(len(r.args[0])),) for r in requests]

    def generate_until(self, requests, disable_tqdm=False):
        return [r.args[0].upper() for r in requests]

    def apply_chat_template(self, chat_history, add_generation_prompt=True):
        return "|".join(m["content"] for m in chat_history) + ("|" if add_generation_prompt else "")

    @property
    def tokenizer_name(self):
        raise NotImplementedError
'''


def ask(kind: str, *arguments: Any) -> Instance:
    return Instance(kind, {}, arguments, 0)  # type: ignore[arg-type]


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    path = tmp_path / "foreign.py"
    path.write_text(LM_EVAL_STYLE)
    return path


def test_a_registered_name_is_loaded() -> None:
    assert load_model("dummy", {"seed": 3}).fingerprint() != load_model("dummy", {"seed": 4}).fingerprint()


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(ConfigError, match="Did you mean dummy"):
        load_model("dumy")


def test_an_unknown_argument_suggests_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"'sed'.*\n.*Did you mean seed"):
        load_model("dummy", {"sed": 1})


def test_device_and_batch_size_go_only_to_models_that_take_them() -> None:
    assert load_model("dummy", {}, device="cpu", batch_size=4).model_args == {}


def test_listing_names_loads_no_backend() -> None:
    code = "import sys; from assay.models import MODELS; list(MODELS); print([m for m in ('torch','aiohttp','orjson','transformers','numpy') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_ready_model_passes_through() -> None:
    model = load_model("dummy")
    assert load_model(model) is model


def test_a_class_from_a_file_written_for_lm_evaluation_harness(foreign: Path) -> None:
    model = load_model(f"{foreign}:Foreign", {"bias": 2}, device="cpu", batch_size=8)
    assert isinstance(model, AdaptedLM)
    assert (model.inner.batch_size, model.inner.kwargs) == (8, {"device": "cpu"})
    requests = [ask("loglikelihood", "a", "bcd"), ask("loglikelihood", "a", "")]
    assert list(model.stream("loglikelihood", requests, [0, 0])) == [
        (0, Response((-1.0, True))),
        (1, Response((2.0, True))),
    ]
    rolling = [ask("loglikelihood_rolling", "four")]
    assert list(model.stream("loglikelihood_rolling", rolling, [0])) == [(0, Response(-4.0))]
    assert model.generate_until([ask("generate_until", "hi", {})]) == ["HI"]
    assert model.apply_chat_template([{"role": "user", "content": "x"}]) == "x|"
    assert model.apply_chat_template([{"role": "user", "content": "x"}], add_generation_prompt=False) == "x"
    assert model.tokenizer_name == ""


def test_the_only_model_of_a_file_needs_no_name(foreign: Path) -> None:
    assert isinstance(load_model(str(foreign)), AdaptedLM)


def test_a_ready_object_of_another_harness_is_wrapped(foreign: Path) -> None:
    inner = load_model(str(foreign)).inner  # type: ignore[attr-defined]
    assert load_model(inner).inner is inner  # type: ignore[attr-defined]


def test_an_edited_file_or_other_arguments_are_another_model(foreign: Path) -> None:
    first = load_model(str(foreign), {"bias": 1}).fingerprint()
    assert load_model(str(foreign), {"bias": 1}).fingerprint() == first
    assert load_model(str(foreign), {"bias": 2}).fingerprint() != first
    foreign.write_text(LM_EVAL_STYLE + "\n# changed\n")
    assert load_model(str(foreign), {"bias": 1}).fingerprint() != first


@pytest.mark.parametrize(
    ("text", "spec", "message"),
    [
        ("", "{}:Missing", "it has no class 'Missing'"),
        ("", "{}", "defines 0 models"),
        ("class A: pass", "{}:A", "does not have the methods"),
        ("import nothing_of_this_name\nA = 1", "{}:A", "nothing_of_this_name"),
        ("def f(:", "{}:A", "bad.py:1: not valid Python"),
    ],
)
def test_a_bad_file_is_said_clearly(tmp_path: Path, text: str, spec: str, message: str) -> None:
    path = tmp_path / "bad.py"
    path.write_text(text)
    with pytest.raises((ConfigError, ModelError), match=message):
        load_model(spec.format(path))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no file"):
        load_model(f"{tmp_path}/none.py:A")


def test_something_else_is_not_a_model() -> None:
    with pytest.raises(ConfigError, match="is not a model"):
        load_model(42)


def test_a_backend_that_answers_too_little_is_caught() -> None:
    class Lazy(LM):
        def loglikelihood(self, requests: Any) -> Any:
            return [(0.0, True)]

        def loglikelihood_rolling(self, requests: Any) -> Any:
            return []

        def generate_until(self, requests: Any) -> Any:
            return ["x"]

    with pytest.raises(ModelError, match="1 responses to 2 requests"):
        list(Lazy().stream("generate_until", [ask("generate_until", "a", {})] * 2, [0, 0]))
    with pytest.raises(ModelError, match="no chat template"):
        Lazy().apply_chat_template([])


def test_models_of_packages_are_found_by_entry_point() -> None:
    assert "hf" in MODELS
    assert "no-such-model" not in MODELS


FOR_LM_EVAL = """
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model


@register_model("their-model")
class TheirModel(LM):
    def __init__(self, size: int = 1, **kwargs) -> None:
        super().__init__()
        self.size = size

    def loglikelihood(self, requests, disable_tqdm: bool = False):
        answers = []
        for request in requests:
            answers.append((-float(self.size), False))
            self.cache_hook.add_partial("loglikelihood", request.args, answers[-1])
        return answers

    def loglikelihood_rolling(self, requests, disable_tqdm: bool = False):
        return [0.0 for _ in requests]

    def generate_until(self, requests, disable_tqdm: bool = False):
        return ["rank %d of %d" % (self.rank, self.world_size) for _ in requests]
"""


def test_a_subclass_of_their_lm_works_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "theirs.py"
    path.write_text(FOR_LM_EVAL)
    model = load_model(f"{path}:TheirModel", {"size": 7}, batch_size=4, device="cpu")
    assert model.loglikelihood([ask("loglikelihood", "a", "b")]) == [(-7.0, False)]
    assert model.generate_until([ask("generate_until", "a", {})]) == ["rank 0 of 1"]
    with pytest.raises(ModelError, match="chat template"):
        model.apply_chat_template([{"role": "user", "content": "x"}])


def test_a_generation_may_be_a_text_or_a_whole_response() -> None:
    class Both(DummyLM):
        stream = LM.stream

        def generate_until(self, requests: Sequence[Instance]) -> list[str | Response]:
            return ["bare", Response("more", "length", reasoning="why"), Response(None, failure="no luck")]

    requests = [ask("generate_until", "x", {})] * 3
    assert [response for _, response in Both().stream("generate_until", requests, [0] * 3)] == [
        Response("bare"),
        Response("more", "length", reasoning="why"),
        Response(None, failure="no luck"),
    ]


def test_what_a_class_of_another_harness_says_about_itself_is_its_info() -> None:
    class Described(DummyLM):
        max_length = 77
        tokenizer_name = "letters"

        def get_model_info(self) -> dict[str, Any]:
            return {"model_num_parameters": 5, "model_dtype": "float8"}

    info = load_model(Described()).info()
    assert (info.max_length, info.tokenizer, info.num_parameters) == (77, "letters", 5)
    assert info.details == {"model_num_parameters": 5, "model_dtype": "float8"}
    assert info.fingerprint == Described().fingerprint()


def test_a_model_of_which_nothing_is_known_may_stand_for_a_server(foreign: Path) -> None:
    info = load_model(f"{foreign}:Foreign").info()
    assert not info.computes_here
    assert info.capabilities.likelihoods
    assert (info.prices, info.num_parameters, info.max_length, info.window_requests) == (None, None, None, 0)


def test_backends_are_known_by_their_classes_without_loading_torch() -> None:
    code = "import sys; from assay.models import MODELS; print(MODELS['hf'].FILE_ARGUMENTS, MODELS['vllm'].FILE_ARGUMENTS, 'torch' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == "('pretrained', 'tokenizer', 'peft') ('pretrained', 'tokenizer', 'lora_local_path') False\n"


def test_people_read_the_name_that_they_type_and_derived_classes_have_their_own() -> None:
    class Mine(DummyLM):
        pass

    assert [make().info().name for make in (DummyLM, NgramLM, Mine)] == ["dummy", "ngram", "Mine"]
    results = assay.evaluate(model=DummyLM(), tasks=["demo_agreement"], limit=2, bootstrap_iters=0)
    assert results.model_name == "dummy"
