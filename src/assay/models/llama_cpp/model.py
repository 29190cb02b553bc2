"""A GGUF file through llama.cpp's own kernels: its server is started with the run and ended with it.

What is asked, and how it is read, is that of any completions server that is llama.cpp's.
"""

from __future__ import annotations

import importlib.util
import secrets
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

from assay.errors import ConfigError, ModelError, install_hint
from assay.instance import Instance, Response
from assay.models.arguments import with_arguments
from assay.models.base import ABILITIES, Capabilities, ModelInfo, NoLikelihoods, Stop, never
from assay.models.catalog import CATALOG, model_directory
from assay.models.engine_process import GRACE, EngineProcess, new_logs
from assay.models.hf.files import check_gguf, fingerprint
from assay.models.likelihoods import as_requests, label_logprobs_by_likelihood
from assay.models.llama_cpp.serving import ServerStart
from assay.models.openai.completions import LocalCompletions
from assay.models.openai.server_info import only_entry
from assay.models.openai.transport import Transport
from assay.models.openai.wire import Settings
from assay.models.waiting import told_while

GONE = 2.0
"""Seconds without a connection after which a server on this machine is gone."""
CACHE_TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0")


@dataclass(frozen=True, kw_only=True)
class LlamaCppArguments:
    """What `--model_args` may say beside `pretrained`."""

    num_concurrent: int = 1
    """Slots of the server: requests that it computes together, which changes the last bits of their numbers."""
    max_length: int = 4096
    """Tokens of a slot, prompt and answer; at most what the model was trained with."""
    cache_type: str = "f32"
    """Of keys and values."""
    flash_attention: bool = False
    threads: int | None = None
    gpu_layers: int | None = None
    max_gen_toks: int | None = None
    seed: int = 1234
    timeout: float = 3600
    think_end_token: str | None = None
    enable_thinking: bool | None = None
    reasoning_effort: str | None = None


class LlamaCpp(LocalCompletions):
    """A GGUF file by llama.cpp's own kernels, as they are quantised; `--model hf` computes with the dequantised weights."""

    registered_name = "gguf"
    FILE_ARGUMENTS = ("pretrained",)

    @with_arguments(LlamaCppArguments)
    def __init__(self, pretrained: str, **arguments: Any) -> None:
        given = LlamaCppArguments(**arguments)
        self.pretrained, self.path, self.arguments = pretrained, gguf_path(pretrained), given
        require_package()
        self._key = secrets.token_hex(16)
        start = ServerStart(
            str(self.path),
            slots=max(1, int(given.num_concurrent)),
            context=int(given.max_length),
            cache_type=_cache_type(given),
            flash_attention=bool(given.flash_attention),
            key=self._key,
            threads=given.threads,
            gpu_layers=given.gpu_layers,
        )
        [log] = new_logs("llama.cpp", 1)
        self.process = EngineProcess("llama.cpp", "assay.models.llama_cpp.serving", start, log)
        try:
            super().__init__(
                model=str(self.path),
                base_url=self._address(),
                num_concurrent=start.slots,
                max_gen_toks=given.max_gen_toks,
                seed=given.seed,
                timeout=given.timeout,
                think_end_token=given.think_end_token,
                enable_thinking=given.enable_thinking,
                reasoning_effort=given.reasoning_effort,
            )
            self._given_length = self.context_length()
            self._said = only_entry(self.listing())
            self._scores = self._finds_exact_way()
        except BaseException:
            self._end(grace=0.0)
            raise

    @classmethod
    def check_arguments(cls, arg_dict: Mapping[str, Any]) -> None:
        super().check_arguments(arg_dict)
        gguf_path(str(arg_dict["pretrained"]))
        _cache_type(LlamaCppArguments(**{name: value for name, value in arg_dict.items() if name != "pretrained"}))
        require_package()

    def make_transport(self, settings: Settings) -> Transport:
        """With the server's own key; one from the environment is for another server."""
        return Transport(replace(settings, gone_after=GONE, headers={"Authorization": f"Bearer {self._key}"}))

    def stream(
        self, request_type: str, instances: Sequence[Instance], draws: Sequence[int], stop: Stop = never
    ) -> Iterator[tuple[int, Response]]:
        try:
            if request_type == "letters":  # as hf and vLLM score them: by all forms of a label

                def score(pairs: list[tuple[Any, str]]) -> Iterator[tuple[int, Response]]:
                    return self.stream("loglikelihood", as_requests(pairs), [0] * len(pairs), stop)

                yield from label_logprobs_by_likelihood(score, instances)
            else:
                yield from super().stream(request_type, instances, draws, stop)
        except ModelError:
            if self.process.has_ended:
                self.process.receive()  # raises what it said last
            raise

    def info(self) -> ModelInfo:
        return replace(
            super().info(),
            name=self.pretrained,
            capabilities=self.capabilities(),
            computes_here=True,
            window_requests=0,
            streams_at_once=1,
        )

    def capabilities(self, wanted: Collection[str] = ABILITIES, known: Collection[str] = ()) -> Capabilities:
        return Capabilities(likelihoods=bool(self._scores))

    def get_model_info(self) -> dict[str, Any]:
        return {
            "model_num_parameters": self._said.get("meta.n_params"),
            "model_dtype": self._said.get("meta.ftype"),
            "gguf": "llama.cpp",
            "xllamacpp": version("xllamacpp"),
        }

    @property
    def tokenizer_name(self) -> str:
        return self.path.name

    def fingerprint(self) -> str:
        """The file, what changes its numbers, and the version. Where the server stands, and how many slots, does not."""
        settings = asdict(self.arguments) | {"max_gen_toks": self.max_gen_toks, "xllamacpp": version("xllamacpp")}
        for name in ("num_concurrent", "threads", "timeout"):
            del settings[name]
        return fingerprint(settings, [self.path], None, None).replace("hf:", "llama.cpp:", 1)

    def identify(self, times: int) -> None:
        """The fingerprint says it all."""

    @cached_property
    def _template(self) -> str | None:
        """What stands in the file: the server has a template of its own for those without."""
        from gguf import GGUFReader

        field = GGUFReader(self.path).get_field("tokenizer.chat_template")
        return None if field is None else str(field.contents())

    def chat_template(self, name: bool | str | None = None) -> str | None:
        return self._template

    def apply_chat_template(self, messages: list[dict[str, Any]], add_generation_prompt: bool = True) -> str:
        """By the server, which has the template of the file."""
        if self._template is None:
            raise ModelError(f"{self.pretrained} has no chat template", hint="Run without --apply_chat_template.")
        body = {"messages": messages, "add_generation_prompt": add_generation_prompt, **self.thinking_fields()}
        return str(self.transport.post(f"{self.server_root}/apply-template", body)["prompt"])

    @property
    def logs(self) -> list[Path]:
        return [self.process.log]

    def close(self) -> None:
        super().close()
        self._end(GRACE)

    def _address(self) -> str:
        began = time.monotonic()

        def tell(now: float) -> str | None:
            return f"llama.cpp is loading the model, for {now - began:.0f} s so far" if now - began > 1 else None

        with told_while(tell):
            address: str = self.process.receive()
        self.process.ready = True
        return address

    def _finds_exact_way(self) -> bool:
        try:
            return self._can_score(never)
        except NoLikelihoods:
            return False

    def _end(self, grace: float) -> None:
        self.process.pipe.close()
        self.process.end(time.monotonic() + grace)


def gguf_path(pretrained: str) -> Path:
    """The file that `pretrained` names: a path, or a small model of the catalog that has been fetched."""
    if pretrained in CATALOG:
        path = model_directory(pretrained) / CATALOG[pretrained].gguf
        if not path.is_file():
            raise ModelError(
                f"the model {pretrained} is not on this machine yet", hint=f"assay fetch --model {pretrained}"
            )
        return path
    path = Path(pretrained).expanduser()
    if path.suffix != ".gguf":
        raise ConfigError(f"the model gguf reads a .gguf file, and pretrained is {pretrained!r}")
    check_gguf(path.parent, path.name)
    return path.resolve()


def require_package() -> None:
    if importlib.util.find_spec("xllamacpp") is None:
        raise ConfigError(
            "the model gguf needs the package 'xllamacpp', which is not installed",
            hint=f"{install_hint('gguf')}, or compute with the dequantised weights: --model hf.",
        )


def _cache_type(given: LlamaCppArguments) -> str:
    if given.cache_type not in CACHE_TYPES:
        raise ConfigError(f"cache_type is {given.cache_type!r}", hint=f"Use one of {', '.join(CACHE_TYPES)}.")
    return given.cache_type
