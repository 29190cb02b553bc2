"""What runs on the other side: an actor that holds the model once and answers shards."""

from __future__ import annotations

import pickle
import socket
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from assay.errors import AssayError
from assay.instance import Instance
from assay.models import Capabilities, ChatRenderer, Identity, ModelInfo, load_model


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """How to load the model; what `load_model` takes."""

    name: str
    model_args: Mapping[str, Any]
    device: str | None = None
    batch_size: int | str | None = None
    trust_remote_code: bool = False


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """What the driver has to know of the model, which it does not load itself."""

    node: str
    node_id: str
    info: ModelInfo
    chat: bytes | None = None
    """The pickled object behind the chat template, where there is one: asking a replica for every doc would be slow."""


@dataclass(frozen=True, slots=True)
class LoadFailure:
    node: str
    error: str


@dataclass(frozen=True, slots=True)
class ShardAnswers:
    """`answers` are (place in the shard, *answer); `usage` is the replica's total so far."""

    answers: list[tuple[Any, ...]]
    usage: Mapping[str, float] | None
    seconds: float
    processor: float
    """Processor time of the same, which other programs on the machine do not stretch."""


class Replica:
    """Loading is a call of its own, so that a model that does not load is an answer and not a dead actor."""

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self.node = socket.gethostname()

    def load(self) -> LoadedModel | LoadFailure:
        import ray

        spec = self.spec
        try:
            self.lm = load_model(
                spec.name,
                spec.model_args,
                device=spec.device,
                batch_size=spec.batch_size,
                trust_remote_code=spec.trust_remote_code,
            )
            return LoadedModel(
                node=self.node,
                node_id=ray.get_runtime_context().get_node_id(),
                info=self.lm.info(),
                chat=_pickled(self.lm.chat_renderer),
            )
        except Exception as error:  # whatever it is, the driver tells the user, with the name of this node
            text = str(error) if isinstance(error, AssayError) else f"{type(error).__name__}: {error}"
            return LoadFailure(self.node, text)

    def answer(self, request_type: str, arguments: Sequence[tuple[Any, ...]], draws: Sequence[int]) -> ShardAnswers:
        began, processor = time.perf_counter(), time.process_time()
        instances = [Instance(request_type, {}, args, index) for index, args in enumerate(arguments)]
        answers = [(at, *response) for at, response in self.lm.stream(request_type, instances, draws)]
        usage = self.lm.usage
        return ShardAnswers(
            answers,
            None if usage is None else asdict(usage),
            time.perf_counter() - began,
            time.process_time() - processor,
        )

    def apply_chat_template(
        self, messages: list[dict[str, Any]], add_generation_prompt: bool, name: bool | str | None
    ) -> str:
        if name is not None:
            self.lm.chat_template(name)
        return self.lm.apply_chat_template(messages, add_generation_prompt=add_generation_prompt)

    def chat_template(self, name: bool | str | None) -> str | None:
        return self.lm.chat_template(name)

    def identify(self, times: int) -> Identity | None:
        return self.lm.identify(times)

    def capabilities(self, wanted: Collection[str], known: Collection[str]) -> Capabilities:
        return self.lm.capabilities(wanted, known)


def _pickled(renderer: ChatRenderer | None) -> bytes | None:
    if renderer is None:
        return None
    try:
        return pickle.dumps(renderer)
    except Exception:  # some tokenizers cannot be pickled; the driver then asks a replica
        return None
