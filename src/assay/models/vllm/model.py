"""The vLLM backend. Prompts go out sorted by prefix, so that its prefix cache hits, and answers are stored as they come."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from assay.instance import Instance, Response
from assay.models.arguments import split_arguments, with_arguments
from assay.models.base import Stop, StreamingLM, never
from assay.models.catalog import resolve
from assay.models.generation import GenerationSettings, draw_seed, room_for_prompt, thoughts_named_in
from assay.models.hf.files import fingerprint
from assay.models.hf.tokenization import ChatFormatter, Pair, TextEncoder, template_text, thinking_arguments
from assay.models.identity import parameters_in_files
from assay.models.info import ModelInfo, Usage
from assay.models.likelihoods import WindowSums, as_requests, label_logprobs_by_likelihood, rolling_windows
from assay.models.vllm.engines import Engines
from assay.models.vllm.protocol import (
    Ids,
    Output,
    Request,
    ScoreSums,
    Start,
    generation_request,
    plan_scores,
    read_generation,
    read_score,
    score_request,
)

AT_ONCE = 1024
"""Requests in vLLM's hands: enough that it is never short of work, few enough that a stop loses little."""


@dataclass(frozen=True, kw_only=True)
class VLLMArguments:
    """What `--model_args` may say beside `pretrained`. Anything else goes to `vllm.LLM`."""

    dtype: str = "auto"
    revision: str | None = None
    tokenizer: str | None = None
    tokenizer_revision: str | None = None
    trust_remote_code: bool = False
    tensor_parallel_size: int = 1
    data_parallel_size: int = 1
    enable_prefix_caching: bool | None = None
    max_length: int | None = None
    max_model_len: int | None = None
    max_gen_toks: int = 256
    batch_size: int | str = "auto"
    add_bos_token: bool | None = None
    prefix_token_id: int | None = None
    lora_local_path: str | None = None
    chat_template: str | None = None
    chat_template_args: Mapping[str, Any] | None = None
    enable_thinking: bool | None = None
    reasoning_effort: str | None = None
    think_end_token: str | None = None
    seed: int = 1234
    device: str | None = None

    def for_engine(self, path: str, others: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of `vllm.LLM`, without those that nobody set."""
        arguments = {
            "model": path,
            "tokenizer": self.tokenizer or path,
            "dtype": self.dtype,
            "revision": self.revision,
            "tokenizer_revision": self.tokenizer_revision,
            "trust_remote_code": self.trust_remote_code,
            "tensor_parallel_size": int(self.tensor_parallel_size),
            "enable_prefix_caching": self.enable_prefix_caching,
            "max_model_len": self.max_model_len or self.max_length,
            "seed": int(self.seed),
            "enable_lora": bool(self.lora_local_path) or None,
            **others,
        }
        return {name: value for name, value in arguments.items() if value is not None}


class VLLM(StreamingLM):
    """vLLM in processes of its own. Other arguments are passed to `vllm.LLM` (`gpu_memory_utilization`, `quantization`, …)."""

    registered_name = "vllm"
    FILE_ARGUMENTS = ("pretrained", "tokenizer", "lora_local_path")
    max_length: int
    chat_renderer: ChatFormatter

    @with_arguments(VLLMArguments, and_others=True)
    def __init__(self, pretrained: str, **arguments: Any) -> None:
        given, of_engine = split_arguments(VLLMArguments, arguments)
        self.arguments = given.for_engine(str(resolve(pretrained) or pretrained), of_engine)
        self.pretrained, self.seed, self.max_gen_toks = pretrained, int(given.seed), int(given.max_gen_toks)
        self.think_end_token, self.lora = given.think_end_token, given.lora_local_path
        self.at_once = AT_ONCE if given.batch_size == "auto" else max(1, int(given.batch_size))
        self.prefix_token_id = given.prefix_token_id
        of_ours = (
            "pretrained",
            *(each.name for each in fields(VLLMArguments)),
            *(self.arguments.keys() - of_engine.keys()),
        )
        start = Start(self.arguments, of_ours, self.lora, self.at_once)
        self.engines = Engines(int(given.data_parallel_size), start)
        try:
            tokenizer = _load_tokenizer(self.arguments)
            ready = self.engines.when_ready()
        except BaseException:
            self.engines.close(grace=0.0)
            raise
        self.max_length, self.version, self.sampling_names = ready.max_length, ready.version, ready.sampling_names
        self.encoder = TextEncoder(tokenizer, add_bos_token=given.add_bos_token, prefix_token_id=given.prefix_token_id)
        thinking = thinking_arguments(given.enable_thinking, given.reasoning_effort)
        self.chat_renderer = ChatFormatter(
            tokenizer, template_text(given.chat_template), {**thinking, **(given.chat_template_args or {})}
        )
        added = getattr(tokenizer, "added_tokens_encoder", None) or {}
        self.thoughts = thoughts_named_in(self.chat_renderer.in_use, added.keys())
        self.specials = tuple(getattr(tokenizer, "all_special_tokens", None) or ())
        self._usage = Usage()

    # -- the contract ------------------------------------------------------------------------------------------------

    def stream(
        self, request_type: str, instances: Sequence[Instance], draws: Sequence[int], stop: Stop = never
    ) -> Iterator[tuple[int, Response]]:
        if request_type == "generate_until":
            return self._stream_generations(instances, draws, stop)
        if request_type == "loglikelihood":
            return self._stream_pairs(instances, stop)
        if request_type == "loglikelihood_rolling":
            return self._stream_rolling(instances, stop)
        if request_type == "letters":
            return label_logprobs_by_likelihood(lambda pairs: self._stream_pairs(as_requests(pairs), stop), instances)
        raise self.cannot_answer(request_type)

    def info(self) -> ModelInfo:
        return replace(
            super().info(),
            name=self.pretrained,
            chat="text" if self.chat_renderer.has_template else None,
            chat_template=self.chat_renderer.in_use,
            computes_here=True,
        )

    def parameter_count(self) -> int | None:
        return parameters_in_files(_local_files(self.arguments["model"]))

    @property
    def tokenizer_name(self) -> str:
        return str(self.arguments["tokenizer"]).replace("/", "__")

    @property
    def usage(self) -> Usage:
        return self._usage

    def fingerprint(self) -> str:
        """Settings, and the files of local directories. A hub name stands for whatever vLLM takes from there.

        Chat templates are no part of it: what they do stands in the prompt.
        """
        settings = {
            "arguments": self.arguments,
            "max_length": self.max_length,
            "max_gen_toks": self.max_gen_toks,
            "seed": self.seed,
            "lora": self.lora,
            "think_end_token": self.think_end_token,
            "add_bos_token": self.encoder.add_bos_token,
            "prefix_token_id": self.prefix_token_id,
            "version": self.version,
        }
        files = _local_files(self.arguments["model"], self.arguments["tokenizer"], self.lora)
        return fingerprint(settings, files, None, None).replace("hf:", "vllm-2:", 1)

    @property
    def logs(self) -> list[Path]:
        return self.engines.logs

    def close(self) -> None:
        self.engines.close()

    # -- inside ------------------------------------------------------------------------------------------------------

    def _stream_pairs(self, instances: Sequence[Instance], stop: Stop) -> Iterator[tuple[int, Response]]:
        pairs = self.encoder.encode_pairs([(str(i.arguments[0]), str(i.arguments[1])) for i in instances])
        sent: list[int] = []
        wanted: list[tuple[Ids, Ids]] = []
        for position, pair in enumerate(pairs):
            if failure := self._why_unscorable(pair):
                yield position, Response(None, failure=failure)
            else:
                # One place is for the token that has to be generated.
                room = self.max_length - 1 - len(pair.continuation)
                sent.append(position)
                wanted.append((tuple(pair.context[-room:]), tuple(pair.continuation)))
        for at, score in self._scores(wanted, stop):
            pair = pairs[sent[at]]
            yield sent[at], Response(score, tokens=(len(pair.context), len(pair.continuation)))

    def _scores(self, pairs: Sequence[tuple[Ids, Ids]], stop: Stop) -> Iterator[tuple[int, tuple[float, bool]]]:
        plan = plan_scores(pairs, by_token="logprob_token_ids" in self.sampling_names)
        sums = ScoreSums(pairs)
        for number, output in self._run(plan.requests, stop):
            yield from sums.add(plan.readers[number], output)
        left = sorted(sums.missing)
        for number, output in self._run([score_request(*pairs[at]) for at in left], stop):
            yield left[number], read_score(output, len(pairs[left[number]][1]))

    def _why_unscorable(self, pair: Pair) -> str | None:
        """In the words of `hf`. Of the context length one place is generated into, and one is the context's."""
        if not pair.continuation:
            return "the continuation has no tokens of its own, so there is nothing to score"
        if len(pair.continuation) > self.max_length - 2:
            return (
                f"the continuation has {len(pair.continuation)} tokens, but the model reads {self.max_length - 2} "
                "(raise max_length if the model allows it)"
            )
        return None

    def _stream_rolling(self, instances: Sequence[Instance], stop: Stop) -> Iterator[tuple[int, Response]]:
        requests: list[Request] = []
        owners: list[int] = []
        scored: list[int] = []
        texts = self.encoder.encode([str(instance.arguments[0]) for instance in instances])
        for position, ids in enumerate(texts):
            for context, targets in rolling_windows(ids, self.encoder.prefix_token_id, self.max_length - 2):
                requests.append(score_request(context + targets[:-1], targets[-1:]))
                owners.append(position)
                scored.append(len(targets))
            if not ids:
                yield position, Response(0.0, tokens=(0, 0))
        sums = WindowSums(owners)
        for at, output in self._run(requests, stop):
            if whole := sums.add(at, Response(read_score(output, scored[at]), tokens=(0, scored[at]))):
                yield whole

    def _stream_generations(
        self, instances: Sequence[Instance], draws: Sequence[int], stop: Stop
    ) -> Iterator[tuple[int, Response]]:
        contexts = [str(instance.arguments[0]) for instance in instances]
        settings = [GenerationSettings.parse(i.arguments[1], max_gen_toks=self.max_gen_toks) for i in instances]
        requests = []
        for context, ids, wanted, draw in zip(contexts, self.encoder.encode(contexts), settings, draws):
            last = ids[-room_for_prompt(self.max_length, wanted.max_gen_toks) :]
            prompt = last or [self.encoder.prefix_token_id]
            # A stop string inside the model's thoughts is not the end of its answer.
            stops = () if self._think_end(context) else wanted.until
            seed = draw_seed(self.seed, context.encode("utf-8", "surrogatepass"), draw)
            requests.append(generation_request(prompt, wanted, stops=stops, seed=seed, known=self.sampling_names))
        for position, output in self._run(requests, stop):
            self._usage.generated_tokens += len(output.token_ids)
            answer = read_generation(output, settings[position], self._think_end(contexts[position]), self.specials)
            thought = len(self.encoder.encode([answer.reasoning])[0]) if answer.reasoning else None
            tokens = (len(requests[position].prompt), len(output.token_ids))
            yield position, answer._replace(tokens=tokens, reasoning_tokens=thought)

    def _think_end(self, context: str) -> str | None:
        """What ends the model's thoughts, where it was told, or where the prompt ends with the mark that opens them."""
        if self.think_end_token or self.thoughts is None:
            return self.think_end_token
        return self.thoughts[1] if context.rstrip().endswith(self.thoughts[0]) else None

    def _run(self, requests: Sequence[Request], stop: Stop) -> Iterator[tuple[int, Output]]:
        """Sorted by prompt; outputs under the positions of their requests."""
        order = sorted(range(len(requests)), key=lambda position: requests[position].prompt)
        waiting = takewhile(lambda _: not stop(), (requests[position] for position in order))
        for number, output in self.engines.generate(waiting):
            prompt = len(requests[order[number]].prompt)
            self._usage.prompt_tokens += prompt
            self._usage.computed_tokens += prompt - output.cached_tokens
            yield order[number], output


def _load_tokenizer(arguments: Mapping[str, Any]) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(
        arguments["tokenizer"],
        revision=arguments.get("tokenizer_revision") or arguments.get("revision") or "main",
        trust_remote_code=arguments["trust_remote_code"],
    )


def _local_files(*places: str | None) -> list[Path]:
    """The files in those places that are directories, and those that are files themselves."""
    paths = [Path(place) for place in dict.fromkeys(places) if place]
    found = [sorted(path.iterdir()) if path.is_dir() else [path] for path in paths]
    return [path for group in found for path in group if path.is_file()]
