"""A byte n-gram model trained on the text beside it: tiny, real, exact, and ready in milliseconds, without torch.

Probabilities of the next byte are Witten-Bell interpolations over contexts of growing length:

    P(b | c₁…cₖ) = (count(c₁…cₖ b) + T · P(b | c₂…cₖ)) / (N + T)

N is how often the context was seen and T how many different bytes followed it; a context never seen leaves the shorter
one's answer as it is. At the bottom is the uniform distribution, so that every byte is possible and each row sums to one.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.errors import ConfigError, ModelFileError
from assay.instance import Instance, Response
from assay.models.base import LM, Stop, never
from assay.models.generation import GenerationSettings, cut_at_stop, draw_seed
from assay.models.info import ModelInfo

END = 0
"""The byte that begins and ends every text."""

_CACHED = 8192
_END = bytes([END])


class ByteNgrams:
    """Counts of a text as sorted arrays: for each length, contexts packed with the byte that followed them."""

    def __init__(self, text: bytes, order: int) -> None:
        self.order = order
        data = np.frombuffer(text, dtype=np.uint8).astype(np.uint64)
        self._levels: list[tuple[NDArray[np.uint64], NDArray[np.int64]]] = []
        packed = data.copy()
        for length in range(order):
            if length:
                packed = packed[1:] | (data[: max(0, len(data) - length)] << np.uint64(8 * length))
            values, counts = np.unique(packed, return_counts=True)
            self._levels.append((values, counts))
        self._cache: OrderedDict[bytes, NDArray[np.float64]] = OrderedDict()

    def logprobs(self, context: bytes) -> NDArray[np.float64]:
        """Log-probabilities of all 256 next bytes. Only the last `order - 1` bytes of the context matter."""
        context = context[len(context) - self.order + 1 :] if len(context) >= self.order else context
        known = self._cache.get(context)
        if known is None:
            known = np.log(self._probabilities(context))
            known.flags.writeable = False
            self._cache[context] = known
            if len(self._cache) > _CACHED:
                self._cache.popitem(last=False)
        return known

    def _probabilities(self, context: bytes) -> NDArray[np.float64]:
        result = np.full(256, 1 / 256)
        for length in range(len(context) + 1):
            values, counts = self._levels[length]
            first = int.from_bytes(context[len(context) - length :], "big") << 8
            # As uint64: a comparison with Python integers would turn the whole array into floats.
            start, stop = np.searchsorted(values, np.array([first, first + 255], dtype=np.uint64), side="left")
            if stop < len(values) and values[stop] == first + 255:
                stop += 1
            if start == stop:
                break  # what follows a longer context was not seen either
            seen = counts[start:stop]
            total, kinds = int(seen.sum()), stop - start
            result *= kinds / (total + kinds)
            result[(values[start:stop] & np.uint64(255)).astype(np.intp)] += seen / (total + kinds)
        return result


def draw_generator(seed: int, context: bytes, draw: int) -> np.random.Generator:
    return np.random.default_rng(draw_seed(seed, context, draw))


def choose_token(logits: NDArray[np.floating], settings: GenerationSettings, generator: np.random.Generator) -> int:
    """The most likely token, or a draw."""
    return int(logits.argmax()) if settings.greedy else draw_token(logits, settings, generator.random())


def draw_token(logits: NDArray[np.floating], settings: GenerationSettings, point: float) -> int:
    """A token by inverse transform at `point` in [0, 1), after temperature, top-k, top-p and min-p, in this order.

    Candidates lie in order of falling probability, so equal points give equal tokens unless probabilities really differ.
    """
    scaled = logits.astype(np.float64) / settings.temperature
    probabilities = np.exp(scaled - scaled.max())
    probabilities /= probabilities.sum()
    order = _candidates(probabilities, settings)
    kept = probabilities[order]
    if settings.top_p < 1.0:
        # The token that crosses the threshold stays: without it top_p = 0 would keep none.
        total = kept.sum() if settings.top_k else 1.0
        kept = kept[: int(np.searchsorted(np.cumsum(kept) / total, settings.top_p)) + 1]
    if settings.min_p > 0.0:
        kept = kept[kept >= settings.min_p * kept[0]]
    sums = np.cumsum(kept)
    return int(order[min(int(np.searchsorted(sums, point * sums[-1], side="right")), len(kept) - 1)])


def _candidates(probabilities: NDArray[np.float64], settings: GenerationSettings) -> NDArray[np.int64]:
    """Tokens that can be drawn, most likely first; sorting the whole vocabulary for each token would cost more than the model."""
    size = len(probabilities)
    if settings.top_k and settings.top_k < size:
        # All that tie with the last are in, so that which of them stays does not depend on the partition.
        least = np.partition(probabilities, size - settings.top_k)[size - settings.top_k]
        some = np.flatnonzero(probabilities >= least)
    elif settings.top_p < 1.0:
        # Tokens below this weigh less than 1 - top_p together, so the nucleus is among the others.
        some = np.flatnonzero(probabilities >= (1.0 - settings.top_p) / size)
    else:
        some = np.flatnonzero(probabilities > 0.0)
    order = some[np.argsort(-probabilities[some], kind="stable")]
    return order[: settings.top_k] if settings.top_k else order


class NgramLM(LM):
    """Predicts each byte from the `order - 1` bytes before it.

    A token is a byte. Byte 0 begins and ends every text: an empty context is that byte, and a generation ends with it.
    `text_file` trains on a text of your own, whose paragraphs are its texts.
    """

    registered_name = "ngram"

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
        raw = (
            Path(text_file).read_bytes() if text_file else files(__package__).joinpath("ngram_corpus.txt").read_bytes()
        )
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
