"""Chat templates: programs that come with a tokenizer, and so with anybody's model."""

from __future__ import annotations

from typing import Any

from assay.errors import ModelError
from assay.timelimit import MatchTimeout, limited

SECONDS = 10.0
"""Of one rendering; real templates take less than a millisecond."""
MOST_CHARACTERS = 20_000_000


def render_chat(tokenizer: Any, name: str, messages: list[dict[str, Any]], *, open_end: bool, **arguments: Any) -> str:
    """The prompt text, for a tokenizer of transformers. Its sandbox bounds what a template reaches, not how long it takes nor what
    it prints. With `open_end` the next word is the model's; else the last message goes on."""
    try:
        text = str(
            limited(
                SECONDS,
                lambda: tokenizer.apply_chat_template(
                    messages,
                    tokenize=False,
                    add_generation_prompt=open_end,
                    continue_final_message=not open_end,
                    **arguments,
                ),
            )
        )
    except MatchTimeout:
        raise _endless(name, f"ran for more than {SECONDS:g} seconds") from None
    except (MemoryError, OverflowError, RecursionError) as error:
        raise _endless(name, f"asked for too much ({type(error).__name__})") from error
    if len(text) > MOST_CHARACTERS:
        raise _endless(name, f"printed {len(text):,} characters")
    return text


def _endless(name: str, what: str) -> ModelError:
    return ModelError(
        f"the chat template of {name!r} {what} for one chat",
        hint="Run without --apply_chat_template, or set another template.",
    )
