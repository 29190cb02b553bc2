"""The `hf` backend: a transformers model behind the three methods of an LM."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.errors import ConfigError
from assay.instance import Instance, Response
from assay.models.arguments import check_arguments, split_arguments, with_arguments
from assay.models.base import LM, Stop, StreamingLM, never
from assay.models.catalog import CATALOG
from assay.models.generation import thoughts_named_in
from assay.models.hf.arguments import IN_FINGERPRINT, HFArguments
from assay.models.hf.files import fingerprint, weights_in_memory
from assay.models.hf.tokenization import ChatFormatter, TextEncoder, template_text, to_scored
from assay.models.info import Capabilities, Check, ModelInfo, TokenDivergences, Usage
from assay.models.likelihoods import label_logprobs_by_likelihood, label_pairs
from assay.models.prefix_tree import count_distinct

if TYPE_CHECKING:
    from assay.models.hf import loading
    from assay.models.hf.engine import HFEngine
    from assay.models.hf.selfcheck import SelfCheck

logger = logging.getLogger(__name__)

LIKELIEST = 200
"""Tokens listed for a prompt: more than servers list, so that theirs are found among them."""


class HFLM(StreamingLM):
    """A local model. `pretrained` is a hub name, a directory, a GGUF file, a catalog name, or a loaded model.

    Importing the class is cheap: torch comes with the first model.
    """

    registered_name = "hf"

    FILE_ARGUMENTS = ("pretrained", "tokenizer", "peft")
    max_length: int
    chat_renderer: ChatFormatter

    @classmethod
    def check_arguments(cls, arg_dict: Mapping[str, Any]) -> None:
        """Also the files of a local model, all but reading its weights."""
        from assay.models.hf import loading

        super().check_arguments(arg_dict)
        cls._passed_on({name: value for name, value in arg_dict.items() if name not in cls._own_arguments()})
        named = {f.name for f in fields(loading.Source)} - {"pretrained"}
        source = loading.Source.find(
            str(arg_dict["pretrained"]), **{name: value for name, value in arg_dict.items() if name in named}
        )
        loading.check_dtype(str(arg_dict.get("dtype", "auto")))
        if source.directory is not None:
            loading.load_config(source)
            loading.load_tokenizer(source)

    @classmethod
    def _own_arguments(cls) -> list[str]:
        parameters = inspect.signature(cls.__init__).parameters.values()
        return [p.name for p in parameters if p.kind is not p.VAR_KEYWORD and p.name != "self"]

    @classmethod
    def _passed_on(cls, given: Mapping[str, Any], *, say: bool = False) -> Mapping[str, Any]:
        """Arguments that transformers takes; any other is an error, with the nearest of ours and of theirs."""
        from assay.models.hf.loading import PASSED_ON, quantization_options

        if unknown := {name: value for name, value in given.items() if name not in PASSED_ON}:
            check_arguments(
                vars(cls).get("registered_name") or cls.__name__, unknown, [*cls._own_arguments(), *sorted(PASSED_ON)]
            )
        quantization_options(given)
        if given and say:
            logger.warning("model arguments passed on to transformers: %s", ", ".join(given))
        return given

    @with_arguments(HFArguments, and_others=True)
    def __init__(self, pretrained: Any, **arguments: Any) -> None:
        """Arguments that are not ours go to `from_pretrained`, where transformers knows them."""
        from assay.models.hf import budget as memory
        from assay.models.hf import loading

        given, passed_on = split_arguments(HFArguments, arguments)
        memory.set_threads(given.threads)
        memory.keep_freed_memory()
        self.source: loading.Source | None = None
        self.tokenizer = given.tokenizer
        if isinstance(pretrained, str | Path):
            self.source = given.source(str(pretrained), self._passed_on(passed_on, say=True))
            self.model, self.tokenizer = loading.load(
                self.source, dtype=given.dtype, device=given.device, backend=given.backend
            )
        elif self.tokenizer is None or isinstance(self.tokenizer, str):
            raise ConfigError("a model object needs a tokenizer object", hint="HFLM(model, tokenizer=tokenizer)")
        else:
            self.model = pretrained.eval()
        self.encoder = TextEncoder(
            self.tokenizer, add_bos_token=given.add_bos_token, prefix_token_id=given.prefix_token_id
        )
        self.max_length = int(given.max_length or loading.find_max_length(self.model.config, self.tokenizer))
        self._usage = Usage()
        self._fingerprint: str | None = None
        self._answer_with(given)

    def _answer_with(self, given: HFArguments) -> None:
        """Settle how prompts are rendered, how long answers may be, and what computes them."""
        from assay.models.hf.generations import Generations
        from assay.models.hf.loglikelihoods import LogLikelihoods

        self.enable_thinking = bool(given.enable_thinking)
        self.chat_renderer = ChatFormatter(
            self.tokenizer, template_text(given.chat_template), given.template_arguments()
        )
        thoughts = self._thoughts(given)
        self.max_gen_toks = given.answer_length(self.max_length, thoughts)
        self._settings: dict[str, Any] = {
            **{name: getattr(given, name) for name in IN_FINGERPRINT},
            "max_length": self.max_length,
            "max_gen_toks": self.max_gen_toks,
            "dtype": str(self.model.dtype),
        }
        engine = self._start(given.tree, given.tokens_per_pass)
        self.loglikelihoods = LogLikelihoods(engine)
        self.generations = Generations(
            engine,
            max_gen_toks=self.max_gen_toks,
            max_rows=given.max_rows,
            think_end_token=given.end_of_thought,
            seed=given.seed,
            thoughts=thoughts,
        )

    def _thoughts(self, given: HFArguments) -> tuple[str, str] | None:
        """The marks around this model's thoughts, as its chat template or its own tokens name them, unless it was told."""
        if given.think_end_token is not None:
            return None
        added = getattr(self.tokenizer, "added_tokens_encoder", None) or {}
        thoughts = thoughts_named_in(self.chat_renderer.in_use, added.keys())
        if given.enable_thinking and thoughts is None:
            raise ConfigError(
                "enable_thinking: neither the chat template nor the tokenizer names the markers around reasoning",
                hint="Name the end marker: --model_args think_end_token='</think>'.",
            )
        return thoughts

    def _start(self, tree: bool, tokens_per_pass: int | None) -> HFEngine:
        """Settle how the model is run: by the tree if it passes the check, and in passes that fit the memory."""
        from assay.models.hf import budget as memory
        from assay.models.hf.checks import TOLERANCE
        from assay.models.hf.engine import HFEngine
        from assay.models.hf.linear import pack_linear_layers
        from assay.models.hf.selfcheck import tree_length
        from assay.models.hf.state import StateRunner
        from assay.models.hf.tree import TreeRunner

        self.check = self._check_tree(tree)
        self.tolerance = TOLERANCE.get(self.model.dtype, 1e-3)
        # An adapter may be merged into the weights later, and a model that was handed over is its owner's to change.
        if self.source is not None and not self.source.peft:
            pack_linear_layers(self.model)
        return HFEngine(
            self.model,
            self.encoder,
            TreeRunner(self.model) if self.check.way == "tree" else None,
            StateRunner(self.model, shares=self.check.way == "state")
            if self.check.way != "tree" and self.check.decodes
            else None,
            memory.TokenBudget(tokens_per_pass or memory.choose_budget(self.model)),
            self._usage,
            self.max_length,
            tree_length(self.model.config),
        )

    def _check_tree(self, wanted: bool) -> SelfCheck:
        from assay.models.hf.checks import stored_self_check
        from assay.models.hf.selfcheck import SelfCheck, self_check

        if not wanted:
            return SelfCheck("batch", reason="it was switched off (tree=False)")
        if self.model.config.is_encoder_decoder:
            return SelfCheck("batch", reason="it is an encoder-decoder model")
        # What was handed over may change in place, and its weights would have to be read whole to tell.
        check = self_check(self.model) if self.source is None else stored_self_check(self.model, self.fingerprint())
        if check.way == "state":
            logger.info(
                "this model cannot use the prefix tree (%s); shared prefixes are cached as states", check.reason
            )
        elif check.way == "batch":
            logger.warning(
                "this model cannot use the prefix tree (%s); each request is computed separately", check.reason
            )
        return check

    def expect_conversations(self) -> None:
        self.generations.keep_prompts()

    def stream(
        self, request_type: str, instances: Sequence[Instance], draws: Sequence[int], stop: Stop = never
    ) -> Iterator[tuple[int, Response]]:
        """Ends early, after the answers of the pass under way, when `stop` says so."""
        yield from self.stream_missing(request_type, instances, draws, range(len(instances)), stop)

    def stream_missing(
        self,
        request_type: str,
        instances: Sequence[Instance],
        draws: Sequence[int],
        missing: Sequence[int],
        stop: Stop = never,
    ) -> Iterator[tuple[int, Response]]:
        """Likelihoods are packed from the whole window, whether an answer is stored or not: a pass with a missing one is computed
        whole, and gives the bits that it gave when none was stored. Generations are computed in each other's company."""
        arguments: list[Any] = [instance.args for instance in instances]
        if self.enable_thinking and request_type != "generate_until":
            raise ConfigError(
                f"enable_thinking does not work with {request_type} requests ({instances[0].task_name})",
                hint="Run only generation tasks, or leave out enable_thinking.",
            )

        # Every pass begins with the embedding of its tokens: the one place where a pass can be refused.
        def refuse_when_stopped(*_: Any) -> None:
            if stop():
                raise _Stopped

        watch = self.model.get_input_embeddings().register_forward_pre_hook(refuse_when_stopped)
        try:
            if request_type == "generate_until":
                chosen = [arguments[position] for position in missing]
                for index, response in self.generations.stream(chosen, [draws[position] for position in missing]):
                    yield missing[index], response
            elif request_type == "loglikelihood":
                yield from self.loglikelihoods.stream(arguments, missing)
            elif request_type == "letters":
                yield from label_logprobs_by_likelihood(self.loglikelihoods.stream, instances, missing)
            elif request_type == "loglikelihood_rolling":
                yield from self.loglikelihoods.stream_rolling([text for (text,) in arguments], missing)
            else:
                raise self.cannot_answer(request_type)
        except _Stopped:
            return
        finally:
            watch.remove()

    def token_divergences(self, other: LM, texts: Sequence[str], most: int) -> Iterator[TokenDivergences] | None:
        from assay.models.hf.divergence import token_divergences

        if not isinstance(other, HFLM):
            return None
        return token_divergences(self.loglikelihoods.engine, other.loglikelihoods.engine, texts, most)

    def likeliest_tokens(self, prompts: Sequence[str]) -> list[dict[str, float]]:
        from assay.models.hf.divergence import likeliest_tokens

        return likeliest_tokens(self.loglikelihoods.engine, prompts, LIKELIEST)

    def info(self) -> ModelInfo:
        return replace(
            super().info(),
            name=self.source.pretrained if self.source is not None else type(self.model).__name__,
            chat="text" if self.chat_renderer.has_template else None,
            chat_template=self.chat_renderer.in_use,
            capabilities=Capabilities(likelihoods=not self.enable_thinking),
            computes_here=True,
            max_gen_toks=self.max_gen_toks,
        )

    def context_length(self) -> int | None:
        return None if self.model.config.is_encoder_decoder else self.max_length

    def get_model_info(self) -> dict[str, Any]:
        revision = self.source.revision if self.source is not None else None
        named = self.source is not None and self.source.gguf_file and self.source.pretrained not in CATALOG
        return {
            **({"gguf": "dequantised"} if named else {}),
            "model_num_parameters": int(self.model.num_parameters()),
            "model_dtype": str(self.model.dtype),
            "model_revision": revision,
            "model_sha": getattr(self.model.config, "_commit_hash", None),
            "inference": {"way": self.check.way, "reason": self.check.reason},
        }

    @property
    def tokenizer_name(self) -> str:
        return str(self.tokenizer.name_or_path).replace("/", "__")

    @property
    def usage(self) -> Usage:
        return self._usage

    def fingerprint(self) -> str:
        """Chat templates are no part of it: what they do stands in the prompt.

        Weights that were handed over may be trained on between two runs, so they are looked at anew.
        """
        if self._fingerprint is None or self.source is None:
            source = self.source
            settings = dict(self._settings)
            if source is None:
                settings["weights"] = weights_in_memory(self.model)
            else:
                settings["name"] = source.pretrained if source.directory is None else None
                settings["part"] = [source.subfolder, source.gguf_file]
                if source.passed_on:
                    settings["passed_on"] = {name: repr(value) for name, value in sorted(source.passed_on.items())}
            self._fingerprint = fingerprint(
                settings, source.files() if source else [], self.model.config, self.tokenizer
            )
        return self._fingerprint

    def own_checks(self, tolerance: float) -> Iterator[Check]:
        from assay.models.hf.checks import own_checks, stored_self_check

        if self.source is not None and self.check.difference is not None:
            stored_self_check(self.model, self.fingerprint(), anew=True)
        return own_checks(self.loglikelihoods.engine, self.check, tolerance)

    @property
    def cuts_prompts(self) -> bool:
        return True

    def text_tokens(self, text: str) -> int:
        return len(self.loglikelihoods.engine.encoder.encode_prompts([text])[0])

    def count_tokens(self, request_type: str, instances: Sequence[Instance]) -> int:
        """Prompt tokens that would go through the model for these requests: what a dry run shows."""
        arguments: list[Any] = [instance.args for instance in instances]
        if request_type == "generate_until":
            return count_distinct(
                [prompt.tokens for prompt in self.generations.prepare(arguments, [0] * len(arguments))]
            )
        if request_type in ("loglikelihood", "letters"):
            texts = arguments if request_type == "loglikelihood" else label_pairs(instances)[0]
            pairs = self.loglikelihoods.encode(texts)
        else:
            pairs = self.loglikelihoods.windows([text for (text,) in arguments])[0]
        return count_distinct([to_scored(pair, self.max_length).tokens for pair in pairs])


class _Stopped(BaseException):
    """Not an `Exception`: nothing on the way out may take it for a failure of the model and try again."""
