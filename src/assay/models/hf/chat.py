"""Messages to prompt text, by the template that comes with the tokenizer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assay.errors import ConfigError, ModelError, did_you_mean


class ChatFormatter:
    """The tokenizer's chat template, or one of its named ones, or a template given as text."""

    def __init__(self, tokenizer: Any, template: str | None, arguments: Mapping[str, Any]) -> None:
        self.tokenizer = tokenizer
        self.arguments = dict(arguments)
        self._template = template

    def select(self, name: bool | str | None) -> str | None:
        """The text of the template that is used from now on. A name picks one of several; True or None the default."""
        templates = self._named()
        if isinstance(name, str):
            if name not in templates:
                raise ConfigError(
                    f"the tokenizer has no chat template named {name!r}",
                    hint=did_you_mean(name, templates) or f"It has: {', '.join(templates) or 'none'}.",
                )
            self._template = templates[name]
        return self.template

    @property
    def template(self) -> str | None:
        if self._template is not None:
            return self._template
        templates = self._named()
        if not templates or "default" in templates:
            return templates.get("default")
        raise ConfigError(
            f"the tokenizer has several chat templates and none is the default: {', '.join(templates)}",
            hint="Name one: --apply_chat_template <name>.",
        )

    @property
    def in_use(self) -> str | None:
        """The text of the template, or None where none was chosen and there is no default."""
        return self._template if self._template is not None else self._named().get("default")

    @property
    def has_template(self) -> bool:
        return self._template is not None or bool(self._named())

    def _named(self) -> dict[str, str]:
        found = getattr(self.tokenizer, "chat_template", None)
        if isinstance(found, dict):
            return found
        return {} if found is None else {"default": found}

    def apply(self, messages: list[dict[str, Any]], add_generation_prompt: bool) -> str:
        """The prompt text. A template that refuses a system message gets the messages without it."""
        import jinja2

        template = self.template
        if template is None:
            raise ModelError(
                f"the tokenizer {self.tokenizer.name_or_path!r} has no chat template",
                hint="Run without --apply_chat_template, or set one: --model_args chat_template=<file>.",
            )
        try:
            return self._render(template, messages, add_generation_prompt)
        except jinja2.exceptions.TemplateError as error:
            rest = [message for message in messages if message["role"] != "system"]
            if len(rest) == len(messages):
                raise self._refusal(error) from error
        try:
            return self._render(template, rest, add_generation_prompt)
        except jinja2.exceptions.TemplateError as error:
            raise self._refusal(error) from error

    def _render(self, template: str, messages: list[dict[str, Any]], add_generation_prompt: bool) -> str:
        return str(
            self.tokenizer.apply_chat_template(
                messages,
                chat_template=template,
                tokenize=False,
                add_generation_prompt=add_generation_prompt,
                continue_final_message=not add_generation_prompt,
                **self.arguments,
            )
        )

    def _refusal(self, error: Exception) -> ModelError:
        return ModelError(
            f"the chat template of {self.tokenizer.name_or_path!r} raised: {error}",
            hint="Some templates require alternating roles; try without --fewshot_as_multiturn or --system_instruction.",
        )


def thinking_arguments(enable_thinking: bool | None, reasoning_effort: str | None) -> dict[str, Any]:
    """What a template is told about thinking: only what somebody said, since templates tell False from absent."""
    said = {"enable_thinking": enable_thinking, "reasoning_effort": reasoning_effort}
    return {name: value for name, value in said.items() if value is not None}


def template_text(template: str | None) -> str | None:
    """A template given as text, or as the name of a file that holds it."""
    if template is None or "{" in template:
        return template
    try:
        return Path(template).expanduser().read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"the chat template {template!r} is neither a template nor a file that can be read: {error}"
        ) from error
