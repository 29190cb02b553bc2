"""What `--model_args` may say to the `hf` backend."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from assay.models.generation import DEFAULT_TOKS, thinking_room
from assay.models.hf.tokenization import thinking_arguments

if TYPE_CHECKING:
    from assay.models.hf import loading

logger = logging.getLogger(__name__)

IN_FINGERPRINT = ("prefix_token_id", "add_bos_token", "peft", "think_end_token", "seed")
"""Arguments that enter the fingerprint as they are given; others enter as what they lead to."""
WITHOUT_EFFECT = {
    "logits_cache": "every shared token is computed once anyway",
    "max_batch_size": "passes are sized in tokens: see tokens_per_pass",
    "softmax_dtype": "log-softmax is always in float32",
    "truncation": "contexts are always cut on the left to max_length",
}


@dataclass(frozen=True, kw_only=True)
class HFArguments:
    """What `--model_args` may say beside `pretrained`. Anything else goes to `from_pretrained`."""

    tokenizer: Any = None
    dtype: str = "auto"
    device: str | None = None
    max_length: int | None = None
    max_gen_toks: int | None = None
    revision: str = "main"
    subfolder: str = ""
    gguf_file: str | None = None
    trust_remote_code: bool = False
    peft: str | None = None
    backend: str = "default"
    add_bos_token: bool | None = None
    prefix_token_id: int | None = None
    attn_implementation: str | None = None
    use_fast_tokenizer: bool = True
    device_map: str | None = None
    parallelize: bool = False
    chat_template: str | None = None
    chat_template_args: Mapping[str, Any] | None = None
    think_end_token: str | int | None = None
    enable_thinking: bool | None = None
    reasoning_effort: str | None = None
    seed: int = 0
    batch_size: int | str | None = None
    tokens_per_pass: int | None = None
    max_rows: int | None = None
    threads: int | None = None
    tree: bool = True
    logits_cache: bool | None = None
    max_batch_size: int | None = None
    softmax_dtype: str | None = None
    truncation: bool | None = None

    def __post_init__(self) -> None:
        for name, why in WITHOUT_EFFECT.items():
            if getattr(self, name) is not None:
                logger.warning("the model argument %s has no effect: %s", name, why)

    def source(self, pretrained: str, passed_on: Mapping[str, Any]) -> loading.Source:
        from assay.models.hf import loading

        return loading.Source.find(
            pretrained,
            revision=str(self.revision),
            subfolder=self.subfolder,
            gguf_file=self.gguf_file,
            tokenizer=None if self.tokenizer is None else str(self.tokenizer),
            peft=self.peft,
            trust_remote_code=self.trust_remote_code,
            use_fast_tokenizer=self.use_fast_tokenizer,
            add_bos_token=self.add_bos_token,
            attn_implementation=self.attn_implementation,
            device_map=self.device_map or ("auto" if self.parallelize else None),
            passed_on=passed_on,
        )

    def template_arguments(self) -> dict[str, Any]:
        return {**(self.chat_template_args or {}), **thinking_arguments(self.enable_thinking, self.reasoning_effort)}

    def answer_length(self, max_length: int, thoughts: tuple[str, str] | None) -> int:
        thinks = self.think_end_token is not None or (thoughts is not None and self.enable_thinking is not False)
        return int(self.max_gen_toks or (thinking_room(max_length) if thinks else DEFAULT_TOKS))

    @property
    def end_of_thought(self) -> str | int | None:
        """`think_end_token`: its number where it is one, also written as text."""
        token = self.think_end_token
        return int(token) if isinstance(token, str) and token.isdigit() else token
