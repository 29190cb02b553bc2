"""From a hub name, a directory or a GGUF file to a model and a tokenizer, with errors that say what is wrong with it."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay.data import hub_or_cache
from assay.errors import AssayError, ConfigError, MissingPackage, ModelError, ModelFileError, did_you_mean
from assay.models.catalog import CATALOG, resolve
from assay.models.hf.files import check_config, check_gguf, check_weights

logger = logging.getLogger(__name__)

DEFAULT_MAX_LENGTH = 2048
_UNSET_LENGTH = 10**29
"""Tokenizers without a limit report 1e30."""
_DTYPES = ("auto", "float32", "float16", "bfloat16", "float64")


@dataclass(frozen=True, slots=True)
class Source:
    """Where a model comes from."""

    pretrained: str
    revision: str = "main"
    subfolder: str = ""
    gguf_file: str | None = None
    tokenizer: str | None = None
    peft: str | None = None
    trust_remote_code: bool = False
    use_fast_tokenizer: bool = True
    add_bos_token: bool | None = None
    attn_implementation: str | None = None
    device_map: str | None = None
    passed_on: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of `from_pretrained`."""

    @classmethod
    def find(cls, pretrained: str, **others: Any) -> Source:
        """Settle what `pretrained` names: a catalog model, a GGUF file, a directory, or else a name on the hub."""
        known = resolve(pretrained)
        path = known or Path(pretrained).expanduser()
        if path.suffix == ".gguf" and others.get("gguf_file") is None:
            others["gguf_file"] = path.name
            path = path.parent
        if known or path.is_dir():
            source = cls(str(path), **others)
            source.check_directory()
            return source
        if pretrained.startswith((".", "/", "~")) or pretrained.count("/") > 1 or pretrained.endswith(".gguf"):
            raise ModelFileError(
                f"there is no model directory {pretrained}",
                hint="Use a directory with config.json and weights, a .gguf file, or a hub name such as org/model.",
            )
        return cls(pretrained, **others)

    @property
    def directory(self) -> Path | None:
        path = Path(self.pretrained)
        return path / self.subfolder if path.is_dir() else None

    def check_directory(self) -> None:
        """What the files show to be wrong before any of them is loaded."""
        directory = self.directory
        if directory is None:
            return
        if self.gguf_file is not None:
            check_gguf(directory, self.gguf_file)
        elif (directory / "config.json").is_file():
            check_config(directory / "config.json")
            check_weights(directory)
        elif not (directory / "adapter_config.json").is_file():
            raise ModelFileError(
                f"{directory} has no config.json, so it is not a model directory",
                hint="Point pretrained= at the directory with config.json, or name a GGUF file with gguf_file=.",
            )

    def files(self) -> list[Path]:
        """Files that make the model what it is; none for a model of the hub, whose commit says it."""
        named = [Path(name) for name in (self.tokenizer, self.peft) if name]
        if self.directory is not None and self.gguf_file is not None:
            named.append(self.directory / self.gguf_file)
        elif self.directory is not None:
            named.append(self.directory)
        folders = (sorted(place.iterdir()) if place.is_dir() else [place] for place in named)
        return [path for paths in folders for path in paths if path.is_file()]

    def common(self) -> dict[str, Any]:
        options: dict[str, Any] = {"revision": self.revision, "trust_remote_code": self.trust_remote_code}
        if self.subfolder:
            options["subfolder"] = self.subfolder
        return options


def load(source: Source, *, dtype: str, device: str | None, backend: str) -> tuple[Any, Any]:
    """The model and its tokenizer."""
    check_dtype(dtype)
    place = nullcontext() if source.directory is not None else hub_or_cache()
    with place:
        config = load_config(source)
        tokenizer = load_tokenizer(source)
        seq2seq = is_seq2seq(config, backend)
        return load_network(source, dtype=dtype, device=choose_device(device), seq2seq=seq2seq), tokenizer


def load_config(source: Source) -> Any:
    from transformers import AutoConfig

    extra = {"gguf_file": source.gguf_file} if source.gguf_file else {}
    try:
        return AutoConfig.from_pretrained(source.pretrained, **source.common(), **extra)
    except Exception as error:  # readers of foreign files raise whatever they stumble over; all of it is the user's
        raise _explain("the config of", source, error) from error


def load_tokenizer(source: Source) -> Any:
    from transformers import AutoTokenizer

    options = source.common()
    name = source.tokenizer or source.pretrained
    if source.tokenizer:
        options.pop("subfolder", None)
        options["revision"] = "main"
    if source.gguf_file and not source.tokenizer:
        options["gguf_file"] = source.gguf_file
    else:
        options["use_fast"] = source.use_fast_tokenizer
    if source.add_bos_token is not None:
        options["add_bos_token"] = source.add_bos_token
    _require_tokenizer_files(source)
    try:
        return AutoTokenizer.from_pretrained(name, **options)
    except Exception as error:  # as above
        kind = ModelError if source.directory is None else ModelFileError
        raise kind(
            f"no tokenizer could be loaded from {name}: {_one_line(error)}",
            hint="Name another: --model_args tokenizer=<directory or hub name>.",
        ) from error


def _require_tokenizer_files(source: Source) -> None:
    # Without any of these transformers may build an empty tokenizer and say nothing.
    directory = source.directory
    if directory is None or source.tokenizer or source.gguf_file:
        return
    names = ("tokenizer*", "vocab*", "spiece*", "*.model", "*.tiktoken", "tekken.json")
    if not any(next(directory.glob(name), None) for name in names):
        raise ModelFileError(
            f"the model directory {directory} has no tokenizer files",
            hint="Name one: --model_args tokenizer=<directory or hub name>.",
        )


def load_network(source: Source, *, dtype: str, device: str, seq2seq: bool) -> Any:
    """The model in evaluation mode, on its device."""
    import transformers

    given = {"attn_implementation": source.attn_implementation, "device_map": source.device_map}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    options |= quantization_options(source.passed_on)
    if source.gguf_file:
        options["gguf_file"] = source.gguf_file
        if hasattr(transformers, "GgufConfig"):
            options["quantization_config"] = transformers.GgufConfig(dequantize=True)
    auto = transformers.AutoModelForSeq2SeqLM if seq2seq else transformers.AutoModelForCausalLM
    transformers.utils.logging.disable_progress_bar()
    try:
        with without_gguf_bar() if source.gguf_file else nullcontext():
            model = auto.from_pretrained(source.pretrained, dtype=dtype, **source.common(), **options)
    except Exception as error:  # as above
        raise _explain("the weights of", source, error) from error
    if source.peft:
        model = _with_adapter(model, source)
    if "device_map" not in options:
        model = _to_device(model, device)
    return model.eval()


@contextmanager
def without_gguf_bar() -> Iterator[None]:
    """Keep the GGUF reader of transformers off the screen: its bar is a plain tqdm, out of reach of their own switch."""
    from transformers import modeling_gguf_pytorch_utils as reader

    bar = getattr(reader, "tqdm", None)
    reader.tqdm = lambda tensors, **_: tensors
    try:
        yield
    finally:
        reader.tqdm = bar


PASSED_ON = frozenset(
    [
        "adapter_kwargs",
        "cache_dir",
        "experts_implementation",
        "generation_config",
        "key_mapping",
        "load_in_4bit",
        "load_in_8bit",
        "local_files_only",
        "low_cpu_mem_usage",
        "max_memory",
        "offload_buffers",
        "offload_folder",
        "quantization_config",
        "token",
        "tp_plan",
        "tp_size",
        "use_kernels",
        "use_safetensors",
        "variant",
        "bnb_4bit_compute_dtype",
        "bnb_4bit_quant_type",
        "bnb_4bit_use_double_quant",
        "bnb_4bit_quant_storage",
        "llm_int8_enable_fp32_cpu_offload",
        "llm_int8_has_fp16_weight",
        "llm_int8_skip_modules",
        "llm_int8_threshold",
    ]
)
"""Arguments of `from_pretrained` that a model may be given beside ours, and those of a bitsandbytes config."""
_BITS = ("load_in_4bit", "load_in_8bit")
_BITSANDBYTES = (*_BITS, "bnb_4bit_", "llm_int8_")


def quantization_options(passed_on: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with those of bitsandbytes gathered into the config that transformers takes."""
    own = {name: value for name, value in passed_on.items() if name.startswith(_BITSANDBYTES)}
    rest = {name: value for name, value in passed_on.items() if name not in own}
    config = rest.get("quantization_config")
    if isinstance(config, str):
        raise ConfigError(
            f"quantization_config is the text {config!r}; expected a mapping",
            hint='Write all arguments as JSON: {"pretrained": …, "quantization_config": {"quant_method": …}}.',
        )
    if own and config is not None:
        raise ConfigError(
            f"{', '.join(own)} cannot be combined with quantization_config",
            hint="Put everything into quantization_config.",
        )
    if not any(own.get(name) for name in _BITS):
        if unused := [name for name in own if name not in _BITS]:
            raise ConfigError(
                f"{', '.join(unused)}: has no effect, because nothing is quantised",
                hint="Add load_in_4bit=True or load_in_8bit=True.",
            )
        return rest
    from transformers import BitsAndBytesConfig

    try:
        return {**rest, "quantization_config": BitsAndBytesConfig(**own)}
    except Exception as error:  # whatever it says to a value that it does not take
        raise ConfigError(f"{', '.join(own)}: {_one_line(error)}") from error


def check_dtype(dtype: str) -> None:
    if dtype not in _DTYPES:
        raise ConfigError(
            f"unknown dtype {dtype!r}", hint=did_you_mean(dtype, _DTYPES) or f"One of: {', '.join(_DTYPES)}."
        )


def _with_adapter(model: Any, source: Source) -> Any:
    try:
        from peft import PeftModel
    except ImportError as error:
        raise ModelError("peft= needs the package peft", hint="pip install peft") from error
    try:
        return PeftModel.from_pretrained(model, source.peft)
    except Exception as error:  # as above
        raise ModelError(
            f"the adapter {source.peft} cannot be applied to {source.pretrained}: {_one_line(error)}",
            hint="An adapter fits only the base model named in its adapter_config.json.",
        ) from error


def _to_device(model: Any, device: str) -> Any:
    """A model that is there already is left alone: some that are quantised refuse any move."""
    if {str(part.device) for part in (*model.parameters(), *model.buffers())} == {device}:
        return model
    try:
        return model.to(device)
    except (RuntimeError, AssertionError, ValueError) as error:
        raise ModelError(
            f"the model cannot be moved to device {device!r}: {_one_line(error)}",
            hint=f"Load it there at once: --model_args device_map={device}." if is_there(device) else None,
        ) from error


def is_there(device: str) -> bool:
    """Whether this machine has such a device, as far as PyTorch can tell."""
    import torch

    kind = device.partition(":")[0]
    if kind == "mps":
        return bool(torch.backends.mps.is_available())
    return kind != "cuda" or bool(torch.cuda.is_available())


def choose_device(device: str | None) -> str:
    """What was requested, or the fastest there is."""
    import torch

    if device is not None:
        if not is_there(device):
            raise ConfigError(
                f"device {device!r}: PyTorch finds no such device on this machine",
                hint="Use --device cpu, or install PyTorch with support for it.",
            )
        return device
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def is_seq2seq(config: Any, backend: str) -> bool:
    if backend not in ("default", "causal", "seq2seq"):
        raise ConfigError(f"unknown backend {backend!r}", hint="One of: default, causal, seq2seq.")
    return backend == "seq2seq" or (backend == "default" and bool(getattr(config, "is_encoder_decoder", False)))


def find_max_length(config: Any, tokenizer: Any) -> int:
    """Of the text part of the config, else of the tokenizer, else 2048."""
    config = getattr(config, "text_config", None) or config
    for name in ("n_positions", "max_position_embeddings", "n_ctx"):
        if (found := getattr(config, name, None)) is not None:
            return int(found)
    limit = getattr(tokenizer, "model_max_length", None)
    return int(limit) if limit is not None and limit < _UNSET_LENGTH else DEFAULT_MAX_LENGTH


def _explain(what: str, source: Source, error: Exception) -> AssayError:
    name = f"{source.pretrained}/{source.gguf_file}" if source.gguf_file else source.pretrained
    text = _one_line(error)
    if isinstance(error, ImportError):
        named = re.search(r"pip install [^`\n]+", str(error))
        return MissingPackage(f"{what} {name}: {text}", hint=named.group() if named else None)
    if "trust_remote_code" in str(error):
        hint = "The model comes with its own code. If you trust it, add --trust_remote_code."
    elif source.passed_on:
        hint = f"Does it load without {', '.join(source.passed_on)}?"
    elif source.directory is not None:
        hint = "Is the download complete? Compare file sizes with the source, or download the model again."
    else:
        usual = "A hub name needs network access (and a login for gated models); a local model needs its directory."
        near = did_you_mean(source.pretrained, CATALOG)
        hint = f"{near} {usual}" if near else usual
    kind = ModelError if source.directory is None else ModelFileError
    return kind(f"{what} {name} cannot be read: {text}", hint=hint)


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"
