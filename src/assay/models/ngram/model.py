"""The n-gram model as a backend: exact likelihoods, rolling likelihoods and generation, without torch."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from assay.errors import ConfigError, ModelFileError
from assay.instance import Instance, Response
from assay.models.base import LM, Stop, never
from assay.models.generation import GenerationSettings, cut_at_stop
from assay.models.info import ModelInfo
from assay.models.ngram.distribution import END, ByteNgrams, choose_token, draw_generator

_END = bytes([END])


class NgramLM(LM):
    """Predicts each byte from the `order - 1` bytes before it.

    A token is a byte. Byte 0 begins and ends every text: an empty context is that byte, and a generation ends with it.
    `text_file` trains on a text of your own, whose paragraphs are its texts.
    """

    @classmethod
    def check_arguments(cls, arg_dict: Mapping[str, Any]) -> None:
        super().check_arguments(arg_dict)
        _read(arg_dict.get("text_file"))

    def __init__(self, order: int = 8, text_file: str | None = None, seed: int = 0, max_gen_toks: int = 256) -> None:
        if not 1 <= order <= 8:
            raise ConfigError(f"ngram: order is {order}", hint="Use a number from 1 to 8.")
        self.order = order
        self.seed = seed
        self.max_gen_toks = max_gen_toks
        self._text = _read(text_file)
        self._ngrams = _trained(self._text, order)

    def loglikelihood(self, requests: Sequence[Instance]) -> list[tuple[float, bool]]:
        return [self._score(_encode(r.arguments[0]) or _END, _encode(r.arguments[1])) for r in requests]

    def loglikelihood_rolling(self, requests: Sequence[Instance]) -> list[float]:
        return [self._score(_END, _encode(request.arguments[0]))[0] for request in requests]

    def generate_until(self, requests: Sequence[Instance]) -> list[str]:
        return [str(self._generate(request, 0).answer) for request in requests]

    def stream(
        self, request_type: str, instances: Sequence[Instance], draws: Sequence[int], stop: Stop = never
    ) -> Iterator[tuple[int, Response]]:
        for position, (instance, draw) in enumerate(zip(instances, draws)):
            if stop():
                return
            if request_type == "generate_until":
                yield position, self._generate(instance, draw)
            else:
                yield position, Response(self.method_for(request_type)([instance])[0])

    def apply_chat_template(self, messages: list[dict[str, Any]], add_generation_prompt: bool = True) -> str:
        """The wording of the training text.

        >>> NgramLM().apply_chat_template([{"role": "user", "content": "What do bees make?"}])
        'Question: What do bees make?\\nAnswer:'
        """
        names = {"user": "Question: ", "assistant": "Answer: "}
        text = "\n".join(names.get(message["role"], "") + str(message["content"]) for message in messages)
        return text + "\nAnswer:" if add_generation_prompt else text

    def chat_template(self, name: bool | str | None = None) -> str | None:
        return "Question: …\nAnswer: …"

    def info(self) -> ModelInfo:
        return replace(super().info(), computes_here=True)

    @property
    def tokenizer_name(self) -> str:
        return "bytes"

    def fingerprint(self) -> str:
        digest = hashlib.sha256(self._text).hexdigest()
        return f"ngram-1:{self.order}:{self.seed}:{self.max_gen_toks}:{digest}"

    def _score(self, context: bytes, continuation: bytes) -> tuple[float, bool]:
        total, greedy = 0.0, True
        memory, text = self.order, context + continuation
        for at in range(len(context), len(text)):
            logprobs = self._ngrams.logprobs(text[max(0, at - memory) : at])
            total += float(logprobs[text[at]])
            greedy = greedy and int(logprobs.argmax()) == text[at]
        return total, greedy

    def _generate(self, request: Instance, draw: int) -> Response:
        context = _encode(request.arguments[0]) or _END
        settings = GenerationSettings.parse(request.arguments[1], max_gen_toks=self.max_gen_toks)
        generator = draw_generator(self.seed, context, draw)
        stops = [_encode(stop) for stop in settings.until]
        out = bytearray()
        while len(out) < settings.max_gen_toks:
            logprobs = self._ngrams.logprobs((context + out)[-self.order :])
            token = choose_token(logprobs, settings, generator)
            if token == END:
                return Response(out.decode("utf-8", "replace"), "eos")
            out.append(token)
            if any(out.endswith(stop) for stop in stops):
                return Response(cut_at_stop(out.decode("utf-8", "replace"), settings.until)[0], "stop")
        return Response(out.decode("utf-8", "replace"), "length")


def _encode(text: Any) -> bytes:
    return str(text).encode("utf-8", "surrogatepass")


def _read(text_file: str | None) -> bytes:
    """The texts, each between end bytes."""
    try:
        raw = Path(text_file).read_bytes() if text_file else files(__package__).joinpath("corpus.txt").read_bytes()
    except OSError as error:
        raise ModelFileError(
            f"ngram: the training text {text_file} cannot be read: {error}", hint="Name a text with text_file=."
        ) from error
    paragraphs = [paragraph.strip() for paragraph in raw.replace(b"\r\n", b"\n").split(b"\n\n")]
    paragraphs = [paragraph for paragraph in paragraphs if paragraph]
    if not paragraphs:
        raise ModelFileError(f"ngram: the training text {text_file} is empty", hint="Name a text with text_file=.")
    return _END + _END.join(paragraphs) + _END


@lru_cache(maxsize=4)
def _trained(text: bytes, order: int) -> ByteNgrams:
    return ByteNgrams(text, order)
