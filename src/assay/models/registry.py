"""From `--model` and `--model_args` to a model that is ready.

Four spellings: a registered name (`hf`), a class in a file (`my_model.py:MyModel`), a backend of another harness that is
installed (`lm_eval:anthropic-chat`), or an object that is a model.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from assay.config import import_failure, may_run, outline, untrusted
from assay.errors import AssayError, ConfigError, MissingPackage, ModelError, UnknownName, did_you_mean
from assay.models.base import LM
from assay.models.catalog import CATALOG
from assay.models.lazy import LazyLM, spec_key
from assay.registry import Registry, missing_package

MODELS: Registry[type[Any]] = Registry(
    "model",
    group="assay.models",
    lazy={
        "dummy": "assay.models.dummy:DummyLM",
        "ngram": "assay.models.ngram:NgramLM",
        "hf": "assay.models.hf:HFLM",
        "hf-auto": "assay.models.hf:HFLM",
        "huggingface": "assay.models.hf:HFLM",
        "openai-completions": "assay.models.openai:OpenAICompletions",
        "local-completions": "assay.models.openai:LocalCompletions",
        "openai-chat": "assay.models.openai:OpenAIChat",
        "openai-chat-completions": "assay.models.openai:OpenAIChat",
        "local-chat-completions": "assay.models.openai:LocalChat",
        "litellm": "assay.models.openai.litellm:LiteLLM",
        "anthropic-chat": "assay.models.openai.litellm:AnthropicChat",
        "anthropic-chat-completions": "assay.models.openai.litellm:AnthropicChat",
        "vllm": "assay.models.vllm.model:VLLM",
        "gguf": "assay.models.llama_cpp.model:LlamaCpp",
    },
)

"""What `--model` may name. A class need not derive from `LM`: `MODEL_ADAPTERS` make those of other harnesses one."""

MODEL_ADAPTERS: Registry[Any] = Registry(
    "model adapter", lazy={"lm_eval": "assay.compat.lm_eval.model_adapter:AdaptedLM"}
)
MODEL_SOURCES: Registry[Callable[[str], Any]] = Registry(
    "source of models", lazy={"lm_eval": "assay.compat.lm_eval.model_adapter:backend_class"}
)
"""What stands before the colon of `lm_eval:NAME`, to what gives the class of that name."""
IMPORT_CONTEXTS: Registry[Callable[[], AbstractContextManager[None]]] = Registry(
    "import context", lazy={"lm_eval": "assay.compat.lm_eval.shim:lm_eval_package"}
)
"""Package to what lets files of model classes import it where it is not installed."""


_METHODS = ("loglikelihood", "loglikelihood_rolling", "generate_until")


def answers_requests(candidate: object) -> bool:
    """Whether a class or object has the three methods of a model."""
    return all(callable(getattr(candidate, name, None)) for name in _METHODS)


def _ready(model: LM | object) -> LM:
    if isinstance(model, LM):
        return model
    if not isinstance(model, type) and answers_requests(model):
        return cast(LM, MODEL_ADAPTERS["lm_eval"](model))
    raise ConfigError(
        f"{model!r} is not a model", hint="Use a name, path/to/file.py:Class, or an object with the LM methods."
    )


def load_model(
    name: str | LM | object,
    model_args: Mapping[str, Any] | None = None,
    *,
    device: str | None = None,
    batch_size: int | str | None = None,
    trust_remote_code: bool | None = None,
) -> LM:
    """Build the model. A ready instance passes through, wrapped if it was written for lm-evaluation-harness."""
    if not isinstance(name, str):
        return _ready(name)
    args = dict(model_args or {})
    offered = {"device": device, "batch_size": batch_size, "trust_remote_code": trust_remote_code or None}
    if is_file_spec(name):
        if batch_size == "auto":  # our word for «as you like», which a class from elsewhere need not know
            del offered["batch_size"]
        return _from_file(name, args, offered)
    if foreign := _foreign_class(name):
        return _from_elsewhere(name, foreign, args, offered)
    return _make(name, _registered(name), args, offered)


def _from_elsewhere(name: str, cls: Any, args: dict[str, Any], offered: dict[str, Any]) -> LM:
    """A backend of another harness; whatever it raises is an error that names it."""
    if offered.get("batch_size") == "auto" and "batch_size" not in args:
        del offered["batch_size"]  # there it means a search for the largest, which takes longer than many a run
    try:
        return _make(name, cls, args, offered)
    except AssayError:
        raise
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and error.name:
            raise missing_package(f"the model {name!r}", error) from error
        hint = "Install the package named above."
        raise MissingPackage(f"the model {name!r}: {error}", hint=hint, package="") from error
    except Exception as error:  # a backend may be anybody's code
        raise ModelError(f"the model {name!r} cannot be created: {type(error).__name__}: {error}") from error


def _foreign_class(name: str) -> Any:
    """The class that `lm_eval:NAME` names; None for a name of ours."""
    source, colon, own = name.partition(":")
    return MODEL_SOURCES[source](own) if colon and source in MODEL_SOURCES else None


def _registered(name: str) -> Any:
    """The backend of that name. The name of a small model is not one, but near enough to be told apart."""
    small = difflib.get_close_matches(name, CATALOG, n=1, cutoff=0.7)
    if small and name not in MODELS:
        hint = f"Did you mean --model hf --model_args pretrained={small[0]}?"
        raise UnknownName(f"unknown model {name!r}", hint=hint)
    return MODELS[name]


def check_model(name: str, model_args: Mapping[str, Any]) -> None:
    """Raises if something is wrong with a model before it is loaded. A class in a user's file is created if its code may run."""
    if not is_file_spec(name):
        cls = _foreign_class(name) or _registered(name)
        if isinstance(cls, type) and issubclass(cls, LM):
            cls.check_arguments(model_args)
        return
    check_model_file(name)
    if not may_run(Path(name.rpartition(":")[0] if ".py:" in name else name)):
        raise untrusted(f"the model {name}")
    load_model(name, model_args).close()


def is_file_spec(name: str) -> bool:
    return ".py:" in name or name.endswith(".py")


def _from_file(name: str, args: dict[str, Any], offered: dict[str, Any]) -> LM:
    """A model of a user's file; whatever its class raises is an error that names the file and line."""
    cls = class_from_file(name)
    try:
        return _make(name, cls, args, offered)
    except AssayError:
        raise
    except (Exception, SystemExit) as error:
        file = Path(inspect.getfile(cls))
        raise import_failure(error, file, f"making a {cls.__name__}") from error


def _make(name: str, cls: Any, args: dict[str, Any], offered: dict[str, Any]) -> LM:
    if isinstance(cls, type) and issubclass(cls, LM):
        try:
            model = cls.create_from_arg_obj(args, offered)
        except ModuleNotFoundError as error:  # backends import what they need when they are built
            raise missing_package(f"the model {name!r}", error) from error
        model.model_args = args
        return model
    if not answers_requests(cls):
        raise ConfigError(
            f"the model {name!r} is {cls!r}, which does not have the methods of a model",
            hint="It needs loglikelihood, loglikelihood_rolling and generate_until.",
        )
    return cast(LM, MODEL_ADAPTERS["lm_eval"].create(cls, args, offered))


def load_when_asked(
    name: str,
    model_args: Mapping[str, Any],
    *,
    device: str | None = None,
    batch_size: int | str | None = None,
    trust_remote_code: bool = False,
) -> LM:
    """The model itself or, if its class says what it depends on, a stand-in that loads it at its first request."""
    offered = {"device": device, "batch_size": batch_size, "trust_remote_code": trust_remote_code}

    def load() -> LM:
        return load_model(name, model_args, device=device, batch_size=batch_size, trust_remote_code=trust_remote_code)

    cls = MODELS.get(name)
    key = spec_key(cls, model_args, offered) if isinstance(cls, type) and issubclass(cls, LM) else None
    return load() if key is None else LazyLM(key, load)


def class_from_file(spec: str) -> type[Any]:
    """`path/to/file.py:Class`. The class may be left out when the file defines exactly one model."""
    path_text, _, class_name = spec.rpartition(":") if ".py:" in spec else (spec, "", "")
    path = Path(path_text).expanduser()
    check_model_file(spec)
    module = _import_file(path)
    models = {
        n: c
        for n, c in vars(module).items()
        if isinstance(c, type) and c.__module__ == module.__name__ and answers_requests(c)
    }
    if class_name:
        found = getattr(module, class_name, None)
        if isinstance(found, type):
            return found
        raise _no_class(path, class_name, list(models))
    if len(models) != 1:
        raise ConfigError(
            f"{path} defines {len(models)} models: {', '.join(models) or 'none'}",
            hint="Choose one: path/to/file.py:ClassName.",
        )
    return next(iter(models.values()))


def check_model_file(spec: str) -> None:
    """What the source of a model file shows to be wrong with it. Nothing of it runs."""
    path_text, _, class_name = spec.rpartition(":") if ".py:" in spec else (spec, "", "")
    path = Path(path_text).expanduser()
    if not path.is_file():
        raise ConfigError(f"there is no file {path} (model {spec!r})", hint="Use path/to/file.py:ClassName.")
    seen = outline(path.resolve())
    if class_name and class_name not in seen.names and not seen.is_open:
        raise _no_class(path, class_name, [each.name for each in seen.classes])


def _no_class(path: Path, name: str, known: list[str]) -> ConfigError:
    return ConfigError(
        f"{path}:1: it has no class {name!r}",
        hint=did_you_mean(name, known) or f"Classes in it: {', '.join(known) or 'none'}.",
    )


def _import_file(path: Path) -> ModuleType:
    """Import by path. The module name comes from the path, so two files of one name do not meet."""
    resolved = path.resolve()
    name = f"assay_model_{resolved.stem}_{hashlib.sha256(str(resolved).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, resolved)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path} cannot be imported as Python", hint="The file name should end in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickling look the module up by name
    sys.path.insert(0, str(resolved.parent))
    try:
        with _lm_eval():
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # the file may do anything at all, also exit
        del sys.modules[name]
        raise import_failure(error, resolved) from error
    finally:
        sys.path.remove(str(resolved.parent))
    return module


def _lm_eval() -> AbstractContextManager[None]:
    """The real lm-evaluation-harness for files that import it; where it is not installed, the part that is needed."""
    if importlib.util.find_spec("lm_eval") is not None:
        return nullcontext()
    context = IMPORT_CONTEXTS.get_installed("lm_eval")
    return nullcontext() if context is None else context()
