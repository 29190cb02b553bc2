"""Tokens on our side of the wire, where a tokenizer is given; otherwise the server's own tokens are read back."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Protocol

from assay.errors import ConfigError, ModelError, install_hint
from assay.models.chat_templates import render_chat

_NO_LENGTH = 10**9
"""Tokenizers that know of no length say a number beyond any."""


class Encoder(Protocol):
    """Text to token ids. `prefix` stands before an empty context."""

    name: str
    prefix: int | None
    fingerprint: str
    """Changes whenever ids may change: a name may stand for other files tomorrow."""
    max_length: int | None
    """Tokens that its model reads, where it says."""

    def encode(self, text: str) -> list[int]: ...
    def decode(self, ids: list[int]) -> str: ...


class HFEncoder:
    """A tokenizer of the hub or a directory. No BOS is added unless requested, as servers are sent exact ids."""

    def __init__(self, name: str, *, revision: str | None, trust_remote_code: bool, add_bos_token: bool) -> None:
        from transformers import AutoTokenizer

        from assay.models.catalog import resolve

        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(
                str(resolve(name) or name), revision=revision or "main", trust_remote_code=trust_remote_code
            )
        except (OSError, ValueError) as error:
            raise ModelError(f"the tokenizer {name!r} cannot be loaded: {error}") from error
        self.name = name
        self._add_special = add_bos_token
        eos, bos = self._tokenizer.eos_token_id, self._tokenizer.bos_token_id
        self.prefix: int | None = bos if bos is not None else eos
        length = getattr(self._tokenizer, "model_max_length", None)
        self.max_length = int(length) if length and length < _NO_LENGTH else None
        said = [name, revision, add_bos_token, self.prefix]
        backend = getattr(self._tokenizer, "backend_tokenizer", None)
        words = backend.to_str() if backend is not None else json.dumps(sorted(self._tokenizer.get_vocab().items()))
        digest = hashlib.sha256(words.encode("utf-8", "surrogatepass")).hexdigest()
        self.fingerprint = f"{json.dumps(said)}:{digest[:16]}"

    def encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=self._add_special))

    def decode(self, ids: list[int]) -> str:
        return str(self._tokenizer.decode(ids))

    @property
    def chat_template(self) -> str | None:
        found = getattr(self._tokenizer, "chat_template", None)
        return found if isinstance(found, str) else None

    def apply_chat_template(self, messages: list[dict[str, Any]], add_generation_prompt: bool) -> str:
        try:
            return render_chat(self._tokenizer, self.name, messages, open_end=add_generation_prompt)
        except ModelError:
            raise
        except Exception as error:  # a template is a program of its own and raises what it likes
            raise ModelError(f"the chat template of {self.name} raised: {error}") from error


class TiktokenEncoder:
    """An encoding of tiktoken, by its own name or by that of a model of OpenAI's."""

    def __init__(self, name: str) -> None:
        try:
            import tiktoken
        except ModuleNotFoundError as error:
            raise ConfigError(
                "tokenizer_backend=tiktoken needs the package tiktoken", hint=install_hint("api")
            ) from error
        try:
            known = name in tiktoken.list_encoding_names()
            self._encoding = tiktoken.get_encoding(name) if known else tiktoken.encoding_for_model(name)
        except KeyError as error:
            raise ConfigError(
                f"tiktoken has no encoding for {name!r}",
                hint=f"Add tokenizer=NAME, one of {', '.join(tiktoken.list_encoding_names())}, to --model_args.",
            ) from error
        except OSError as error:
            raise ModelError(f"the encoding for {name!r} cannot be fetched: {error}") from error
        self.name = self.fingerprint = f"tiktoken:{self._encoding.name}"
        self.prefix: int | None = self._encoding.eot_token
        self.max_length: int | None = None

    def encode(self, text: str) -> list[int]:
        return list(self._encoding.encode(text, allowed_special="all"))

    def decode(self, ids: list[int]) -> str:
        return str(self._encoding.decode(ids))


def make_encoder(
    backend: str | None,
    tokenizer: str | None,
    model: str,
    *,
    revision: str | None,
    trust_remote_code: bool,
    add_bos_token: bool,
) -> Encoder | None:
    """None, the default, leaves tokens to the server. A tokenizer's name alone means one of transformers."""
    chosen = (backend or ("huggingface" if tokenizer else "none")).lower()
    if chosen in ("none", "remote", "server"):
        return None
    if chosen == "tiktoken":
        return TiktokenEncoder(tokenizer or model)
    if chosen in ("huggingface", "hf"):
        return HFEncoder(
            tokenizer or model, revision=revision, trust_remote_code=trust_remote_code, add_bos_token=add_bos_token
        )
    raise ConfigError(f"tokenizer_backend is {backend!r}", hint="Use none, huggingface or tiktoken.")


def split_pair(encoder: Encoder, context: str, continuation: str) -> tuple[list[int], list[int]]:
    """Ids of context and continuation as lm-evaluation-harness splits them.

    Spaces at the end of the context go to the continuation, which is what follows the context's own ids in the ids of
    the whole: `enc("a b")[len(enc("a")):]`.
    """
    stripped = context.rstrip()
    continuation = context[len(stripped) :] + continuation
    if not stripped:
        ids = encoder.encode(continuation)
        if encoder.prefix is None:
            raise ConfigError(
                f"the tokenizer {encoder.name} has neither a BOS nor an EOS token to use for an empty context"
            )
        return ([ids[0]], ids[1:]) if ids[:1] == [encoder.prefix] else ([encoder.prefix], ids)
    whole, head = encoder.encode(stripped + continuation), encoder.encode(stripped)
    return head, whole[len(head) :]
