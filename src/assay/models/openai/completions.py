"""`/v1/completions`: generation, and likelihoods where the server echoes prompts with log-probabilities, or token by token."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from assay.errors import ModelError
from assay.instance import Context, Instance, Response
from assay.models.base import ABILITIES, Capabilities, Check, ModelInfo, NoLikelihoods, Stop, never
from assay.models.generation import GenerationSettings, room_for_prompt
from assay.models.identity import PROBES
from assay.models.likelihoods import WindowSums, rolling_windows
from assay.models.openai.backend import ServerLM
from assay.models.openai.echo import EchoRequest, scored_tokens, sum_score
from assay.models.openai.forced import SAME, TokenByToken, find_exact_way, stream_by_token
from assay.models.openai.sending import MOST_CHOICES, TAKES_LISTS
from assay.models.openai.server_info import TOPS, context_said, entry_of, only_entry
from assay.models.openai.tokens import Encoder, HFEncoder, split_pair
from assay.models.openai.wire import NOTHING_TO_SCORE, Failed, Job, Unusable, why_unsendable

_PROBE = "The sun rises in the east."


class LocalCompletions(ServerLM):
    """Your own completions server: vLLM, SGLang, llama.cpp, text-generation-inference, …"""

    registered_name = "local-completions"
    ENDPOINT = "/completions"
    TOP_LOGPROBS: ClassVar[Mapping[str, Any]] = {"logprobs": TOPS}
    _echo_works = False
    _by_token: TokenByToken | None = None
    _takes_lists: bool | None = None
    _scores: bool | None = None

    def stream(
        self, request_type: str, instances: Sequence[Instance], draws: Sequence[int], stop: Stop = never
    ) -> Iterator[tuple[int, Response]]:
        if request_type == "generate_until":
            yield from self.stream_generation(instances, draws, stop)
            return
        if request_type == "letters":
            yield from self.stream_label_logprobs(instances, stop)
            return
        if request_type not in ("loglikelihood", "loglikelihood_rolling"):
            raise self.cannot_answer(request_type)
        if not self._can_score(stop):
            return
        if self._by_token is not None:
            yield from stream_by_token(self._by_token, request_type, instances, stop)
        elif request_type == "loglikelihood":
            yield from self._stream_pairs(instances, stop)
        else:
            yield from self._stream_rolling(instances, stop)

    def loglikelihood(self, requests: Sequence[Instance]) -> list[tuple[float, bool]]:
        return self.answer_required("loglikelihood", requests)

    def loglikelihood_rolling(self, requests: Sequence[Instance]) -> list[float]:
        return self.answer_required("loglikelihood_rolling", requests)

    def info(self) -> ModelInfo:
        template = self.chat_template()
        return replace(super().info(), chat="text" if template else None, chat_template=template)

    def capabilities(self, wanted: Collection[str] = ABILITIES, known: Collection[str] = ()) -> Capabilities:
        found = super().capabilities(wanted, known)
        if "likelihoods" not in wanted:
            return found
        if self._scores is None:
            try:
                self._scores = self._can_score(never)
            except NoLikelihoods:
                self._scores = False
        return replace(found, likelihoods=self._scores)

    def own_checks(self, tolerance: float) -> Iterator[Check]:
        """Which ways to log-likelihoods are exact on this server."""
        echo = self._check_echo()
        yield echo
        if echo.passed is not None:
            return
        by_token, reason = self._find_by_token()
        if by_token is None:
            yield Check("likelihoods by token", None, note=reason)
            return
        for by_token.forces in (True, False):
            yield by_token.check_way()

    @property
    def cuts_prompts(self) -> bool:
        return self.encoder is not None

    def apply_chat_template(self, messages: list[dict[str, Any]], add_generation_prompt: bool = True) -> str:
        """By the template of the tokenizer, as the endpoint takes text; chat endpoints have the server's own."""
        if isinstance(self.encoder, HFEncoder) and self.encoder.chat_template:
            return self.encoder.apply_chat_template(messages, add_generation_prompt)
        raise ModelError(
            f"{self.url} takes plain text, and there is no chat template to build it with",
            hint="Add tokenizer=NAME with a template, or use local-chat-completions.",
        )

    def chat_template(self, name: bool | str | None = None) -> str | None:
        return self.encoder.chat_template if isinstance(self.encoder, HFEncoder) else None

    def write_generation(self, context: Context, settings: GenerationSettings, seed: int | None) -> dict[str, Any]:
        prompt: str | list[int] = str(context)
        if self.encoder is not None:
            prompt = self._fitted(self.encoder, str(context), room_for_prompt(self.max_length, settings.max_gen_toks))
        body: dict[str, Any] = {
            "model": self.model,
            "prompt": prompt,
            "max_tokens": settings.max_gen_toks,
            "temperature": settings.temperature,
        }
        body |= {**self.thinking_fields(), **sampling_fields(settings)}
        if stops := self.stops_to_send(settings):
            body["stop"] = stops
        return body if seed is None else {**body, "seed": seed}

    def _fitted(self, encoder: Encoder, context: str, room: int) -> str | list[int]:
        """Cut on the left, so that the question at the end stays. Without a tokenizer the server decides.

        A text that fits goes out as it is: encoding and decoding do not give every text back.
        """
        ids = encoder.encode(context)
        last = ids[-room:]
        if self.tokenized:
            return last or ([] if encoder.prefix is None else [encoder.prefix])
        return context if len(last) == len(ids) else encoder.decode(last)

    def _stream_pairs(self, instances: Sequence[Instance], stop: Stop) -> Iterator[tuple[int, Response]]:
        echoes: list[tuple[int, EchoRequest]] = []
        for position, instance in enumerate(instances):
            echo = self._pair(*map(str, instance.arguments[:2]))
            if isinstance(echo, Failed):
                yield position, Response(None, failure=echo.reason)
            else:
                echoes.append((position, echo))
        most = self._most_together() if len(echoes) > 1 else 1
        for at, answer in self._send_echoes([echo for _, echo in echoes], stop, most):
            yield echoes[at][0], answer

    def _send_echoes(self, echoes: Sequence[EchoRequest], stop: Stop, most: int) -> Iterator[tuple[int, Response]]:
        def write(at: int) -> Job[Response]:
            return Job(echoes[at].body(self.model, self.seed), partial(self._read_pair, echoes[at]))

        def belong(one: int, other: int) -> bool:
            return self.batch_size is not None or echoes[one].context == echoes[other].context

        return self.send_by_prefix(write, [echo.prompt for echo in echoes], stop, belong, most)

    def _most_together(self) -> int:
        """Of the choices of a question: found out from the server once, in the first round that could use it."""
        if self.batch_size is not None:
            return self.batch_size
        if self._takes_lists is None:
            try:
                listing = self.listing()
            except ModelError:  # a page that not every server has
                listing = None
            self._takes_lists = entry_of(listing, self.model).get("owned_by") in TAKES_LISTS
        return MOST_CHOICES if self._takes_lists else 1

    def _pair(self, context: str, continuation: str) -> EchoRequest | Failed:
        if unsendable := why_unsendable(context, continuation):
            return unsendable
        echo = self._split(context, continuation)
        if isinstance(echo, EchoRequest) and echo.is_empty:
            # Not certain, as a sum over no tokens would have it: such a choice would win against all others.
            return Failed(NOTHING_TO_SCORE)
        return echo

    def _split(self, context: str, continuation: str) -> EchoRequest | Failed:
        if self.encoder is not None and self.tokenized:
            head, tail = split_pair(self.encoder, context, continuation)
            if len(tail) >= self.max_length - 1:
                return Failed(f"the continuation has {len(tail)} tokens, but max_length is {self.max_length}")
            ids = (head + tail)[-(self.max_length - 1) :]
            return EchoRequest(ids, len(ids) - len(tail))
        stripped = context.rstrip()
        prefix = "" if stripped else self._prefix()
        prompt = prefix + context + continuation
        return EchoRequest(prompt, len(prefix) + len(stripped))

    def _read_pair(self, echo: EchoRequest, reply: Any) -> Response:
        scored = scored_tokens(echo, reply)
        echoed = len(reply["choices"][0]["logprobs"]["token_logprobs"])  # the last of them was generated
        prompt, _ = self.count(reply) or (echoed - 1, 0)
        return Response(sum_score(scored), tokens=(prompt - len(scored), len(scored)))

    def _stream_rolling(self, instances: Sequence[Instance], stop: Stop) -> Iterator[tuple[int, Response]]:
        """Windows of all texts go out together; a text is answered when its last window is."""
        echoes: list[EchoRequest] = []
        owners: list[int] = []
        for position, instance in enumerate(instances):
            text = str(instance.arguments[0])
            if unsendable := why_unsendable(text):
                yield position, Response(None, failure=unsendable.reason)
                continue
            windows = self._windows(text)
            echoes += windows
            owners += [position] * len(windows)
            if not windows:
                yield position, Response(0.0, tokens=(0, 0))
        sums = WindowSums(owners)
        for at, answer in self._send_echoes(echoes, stop, self.batch_size or 1):
            if whole := sums.add(at, answer):
                yield whole

    def _windows(self, text: str) -> list[EchoRequest]:
        if not text:
            return []
        if self.encoder is None or not self.tokenized:
            prefix = self._prefix()
            return [EchoRequest(prefix + text, len(prefix))]
        ids = self.encoder.encode(text)
        # One place is for the prefix and one for the token that the server generates after the echo.
        windows = rolling_windows(ids, self.encoder.prefix, self.max_length - 2)
        return [EchoRequest(context + scored, len(context)) for context, scored in windows]

    def _prefix(self) -> str:
        if self.eos_string:
            return self.eos_string
        raise ModelError(
            "text without a context needs a token before it, but the server's tokens are not known here",
            hint="Add tokenizer=NAME, or eos_string=<the model's begin or end of text>, to --model_args.",
        )

    def _can_score(self, stop: Stop) -> bool:
        """Ask once whether prompts are echoed with log-probabilities; most servers without it ignore the wish. Else whether
        tokens can be scored one by one.

        False when it was told to stop before there was an answer.
        """
        if self._echo_works or self._by_token is not None:
            return True
        no_echo = self._why_no_echo(stop)
        if no_echo is None:
            return False
        if no_echo:
            by_token, reason = self._find_by_token()
            if reason or by_token is None:
                raise NoLikelihoods(
                    f"{self.url} gives no log-probabilities of the prompt (echo with logprobs) that can be used, which multiple-choice and perplexity tasks need: {no_echo}; {reason}",
                    hint="Run tasks that generate, or score with --model hf or vllm; vLLM's own server supports echo, and llama.cpp's forced tokens.",
                )
            self._by_token = by_token
        self._echo_works = not no_echo
        return True

    def _why_no_echo(self, stop: Stop = never) -> str | None:
        """Nothing where it echoes; None when it was told to stop. The probe has the form that the requests will have: a
        server whose tokens cannot be found in a text may still be one whose tokens can be counted.
        """
        ids = self.encoder.encode(_PROBE) if self.encoder is not None and self.tokenized else None
        probe = EchoRequest(_PROBE, len(_PROBE) // 2) if ids is None else EchoRequest(ids, len(ids) // 2)

        def what_is_wrong(reply: Any) -> str:
            try:
                sum_score(scored_tokens(probe, reply))
            except Unusable as error:
                return str(error)
            return ""

        wrong = self.transport.send(Job(probe.body(self.model, self.seed), what_is_wrong), stop)
        if isinstance(wrong, Failed):
            if not wrong.refused:  # busy or broken, which says nothing about what it can do
                raise ModelError(f"{self.url}: {wrong.reason}")
            return wrong.reason
        return wrong

    def _check_echo(self) -> Check:
        """What a token is worth when it is generated, and when it is echoed after that."""
        name = "likelihoods by echo"
        if no_echo := self._why_no_echo():
            return Check(name, None, note=no_echo)
        differences = []
        for prompt in PROBES:
            text, generated = self._echoed(prompt)[-1]
            *_, (same, echoed), _ = self._echoed(prompt + text)
            if text and same == text:
                differences.append(abs(echoed - generated))
        if not differences:
            return Check(name, None, note="what it generates and what it echoes are other tokens")
        difference = max(differences)
        return Check(name, difference <= SAME, difference, note="exact" if difference <= SAME else "not exact")

    def _echoed(self, prompt: str) -> list[tuple[str, float]]:
        """The tokens of a prompt and the one that is generated after it, each with its log-probability."""
        ids = self.encoder.encode(prompt) if self.encoder is not None and self.tokenized else None

        def read(reply: Any) -> list[tuple[str, float]]:
            said = reply["choices"][0]["logprobs"]
            if len(said["token_logprobs"]) < 2:
                raise Unusable("it does not echo prompts with log-probabilities")
            return [(str(text), float(value or 0.0)) for text, value in zip(said["tokens"], said["token_logprobs"])]

        outcome = self.transport.send(
            Job(EchoRequest(prompt if ids is None else ids, 0).body(self.model, self.seed), read)
        )
        if outcome is None or isinstance(outcome, Failed):
            raise ModelError(f"{self.url}: {outcome.reason if outcome else 'it was not asked'}")
        return outcome

    def _find_by_token(self) -> tuple[TokenByToken | None, str]:
        """What scores token by token, and why that is not exact, where it is not."""
        try:
            props, listing = self.transport.get(f"{self.server_root}/props"), self.listing()
            if not isinstance(props, Mapping) or "total_slots" not in props:
                return None, "nor is it llama.cpp's server, which can be made to say them token by token"
            said = entry_of(listing, self.model) or only_entry(listing)
            found = TokenByToken(
                self.transport,
                self,
                self.server_root,
                self.model,
                props,
                words=said.get("meta.n_vocab"),
                length=context_said(said) or self.max_length,
            )
        except ModelError as error:  # pages that not every server has
            return None, error.message
        return found, find_exact_way(found)


class OpenAICompletions(LocalCompletions):
    """OpenAI's own completions endpoint."""

    registered_name = "openai-completions"

    DEFAULT_URL = "https://api.openai.com/v1"
    NEEDS_KEY = True


def sampling_fields(settings: GenerationSettings) -> dict[str, Any]:
    """What differs from the defaults, by the names servers know, and whatever else the task asks for."""
    fields: dict[str, Any] = {}
    if not settings.greedy:
        if settings.top_p < 1.0:
            fields["top_p"] = settings.top_p
        if settings.top_k:
            fields["top_k"] = settings.top_k
        if settings.min_p:
            fields["min_p"] = settings.min_p
    return fields | dict(settings.other)
