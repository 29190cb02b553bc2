"""Models written for lm-evaluation-harness, used as they are.

They are known by what they can do (three methods), not by what they inherit from, so that lm-evaluation-harness need
not be installed for a class that does without it.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

from assay.compat.lm_eval.partial_answers import stream_partial
from assay.config import lm_eval_version_of
from assay.errors import AssayError, ConfigError, MissingPackage, ModelError, did_you_mean
from assay.instance import Instance, Response
from assay.models import (
    LM,
    Capabilities,
    Stop,
    check_arguments,
    class_fingerprint,
    count_parameters,
    never,
    object_fingerprint,
    to_response,
)
from assay.registry import missing_package


def _line_of(cls: type[Any]) -> str | None:
    """The line of lm-evaluation-harness that a class is part of; None for a class that somebody wrote for it."""
    if not cls.__module__.startswith("lm_eval."):
        return None
    package = sys.modules.get("lm_eval")
    file = None if package is None else package.__file__
    return None if file is None else lm_eval_version_of(Path(file).parent / "tasks" / "any.yaml")


class AdaptedLM(LM):
    """Passes everything on to `inner`, and fills in what the older contract does not have."""

    def __init__(self, inner: Any, model_args: Mapping[str, Any] | None = None) -> None:
        """`model_args` are those that `inner` was built from; None for an object that somebody made."""
        self.inner = inner
        if model_args is not None:
            self.model_args = dict(model_args)

    @classmethod
    def create(cls, inner: Any, args: Mapping[str, Any], offered: Mapping[str, Any]) -> Self:
        """Build `inner` from arguments in the way its author meant: by its own factory where it has one."""
        extra = {k: v for k, v in offered.items() if v is not None}
        parameters = inspect.signature(inner).parameters
        names = [n for n, p in parameters.items() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            check_arguments(getattr(inner, "__name__", str(inner)), args, names)
            extra = {k: v for k, v in extra.items() if k in names}
        extra = {k: v for k, v in extra.items() if k not in args}
        if factory := getattr(inner, "create_from_arg_obj", None):
            return cls(factory(dict(args), extra), args)
        if factory := getattr(inner, "create_from_arg_string", None):
            return cls(factory(",".join(f"{k}={v}" for k, v in args.items()), extra), args)
        return cls(inner(**args, **extra), args)

    def capabilities(self, wanted: Collection[str] = (), known: Collection[str] = ()) -> Capabilities:
        """Nothing is known of such a class; its own methods decide what it is shown."""
        return Capabilities(images=True, tools=True)

    def loglikelihood(self, requests: Sequence[Instance]) -> list[tuple[float, bool]]:
        return self._ask("loglikelihood", requests)

    def loglikelihood_rolling(self, requests: Sequence[Instance]) -> list[float]:
        """Backends of 0.5 are asked for `("", text)`, and answer with pairs."""
        asked = list(requests)
        if _line_of(type(self.inner)) == "0.5":
            asked = [replace(request, arguments=("", *request.arguments)) for request in asked]
        answers = self._ask("loglikelihood_rolling", asked)
        return [answer[0] if isinstance(answer, tuple | list) else answer for answer in answers]

    def generate_until(self, requests: Sequence[Instance]) -> list[str]:
        return self._ask("generate_until", requests)

    def stream(
        self, request_type: str, instances: Sequence[Instance], draws: Sequence[int], stop: Stop = never
    ) -> Iterator[tuple[int, Response]]:
        """Each answer when the backend has it, not at the end of a call: a run that is killed loses none of them."""
        whole = partial(super().stream, request_type, instances, draws)
        if _line_of(type(self.inner)) is None:
            return whole(stop)

        def read(answer: Any) -> Response:
            number_first = request_type == "loglikelihood_rolling" and isinstance(answer, tuple | list)
            return to_response(request_type, answer[0] if number_first else answer, self.class_name)

        return stream_partial(self.inner, request_type, instances, whole, read, stop)

    def _ask(self, method: str, requests: Sequence[Instance]) -> list[Any]:
        """What a backend of lm-evaluation-harness says that it cannot do is for its user; the error of a class that
        somebody wrote is for its author, with the traceback."""
        try:
            return list(getattr(self.inner, method)(list(requests)))
        except Exception as error:
            if isinstance(error, AssayError) or _line_of(type(self.inner)) is None:
                raise
            said = " ".join(str(error).split())
            raise ModelError(
                f"{self.class_name} of lm-evaluation-harness: {type(error).__name__}: {said}",
                hint="--debug shows where; its answers so far are kept.",
            ) from error

    def apply_chat_template(self, messages: list[dict[str, Any]], add_generation_prompt: bool = True) -> str:
        method = getattr(self.inner, "apply_chat_template", None)
        if method is None:
            return super().apply_chat_template(messages, add_generation_prompt)
        try:
            parameters = inspect.signature(method).parameters.values()
            if len(parameters) == 1 and not any(p.kind is p.VAR_KEYWORD for p in parameters):
                return str(method(messages))
            return str(method(messages, add_generation_prompt=add_generation_prompt))
        except NotImplementedError as error:
            raise ModelError(
                f"the model {type(self.inner).__name__} has no chat template", hint="Run without --apply_chat_template."
            ) from error

    @property
    def class_name(self) -> str:
        return type(self.inner).__name__

    @property
    def tokenizer_name(self) -> str:
        try:
            return str(getattr(self.inner, "tokenizer_name", ""))
        except NotImplementedError:  # how lm-evaluation-harness says that there is none
            return ""

    def chat_template(self, name: bool | str | None = None) -> str | None:
        method = getattr(self.inner, "chat_template", None)
        if not callable(method):
            return None
        text = method(True if name is None else name)
        return None if text is None else str(text)

    def fingerprint(self) -> str:
        own = getattr(self.inner, "fingerprint", None)
        if callable(own):
            return str(own())
        if "model_args" in vars(self):
            return class_fingerprint(type(self.inner), self.model_args)
        return object_fingerprint(self.inner)

    def get_model_info(self) -> dict[str, Any]:
        own = getattr(self.inner, "get_model_info", None)
        details = dict(own()) if callable(own) else {}
        if (size := count_parameters(self.inner)) is not None:
            details.setdefault("model_num_parameters", size)
        return details


def backend_class(name: str) -> Any:
    """The class behind a name of lm-evaluation-harness's own registry. This module, and no other, imports that package."""
    try:
        importlib.import_module("lm_eval.models")
        registry = importlib.import_module("lm_eval.api.registry")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "lm_eval":
            raise missing_package("lm-evaluation-harness", error) from error
        raise MissingPackage(
            f"the model 'lm_eval:{name}' belongs to lm-evaluation-harness, which is not installed",
            hint="pip install lm-eval",
            package="lm_eval",
        ) from error
    known = list(registry.MODEL_REGISTRY.keys())
    if name not in known:
        hint = did_you_mean(name, known) or f"It has: {', '.join(sorted(known))}."
        raise ConfigError(f"the installed lm-evaluation-harness has no model {name!r}", hint=hint)
    try:
        try:
            return registry.get_model(name)
        except ValueError:  # "already registered"
            return _registered_by_itself(registry, name)
    except ModuleNotFoundError as error:
        raise missing_package(f"the model 'lm_eval:{name}'", error) from error


def _registered_by_itself(registry: Any, name: str) -> Any:
    """The class that a module registers under a name for which the list of backends has another, as it does in 0.4.13 for
    ipex and neuronx: without that entry the module can be imported."""
    entries = registry.MODEL_REGISTRY._objs
    module = str(entries[name]).partition(":")[0]
    for alias in [alias for alias, entry in entries.items() if str(entry).startswith(f"{module}:")]:
        del entries[alias]
    importlib.import_module(module)
    return registry.get_model(name)
