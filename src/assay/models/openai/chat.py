"""`/v1/chat/completions`: generation from messages, with images as parts of them.

Files, bytes, pictures of PIL and local addresses become data URLs.
"""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, NoReturn
from urllib.parse import unquote, urlsplit

from assay.errors import ConfigError, DataError
from assay.instance import Context, Instance, Message, Response, context_text, is_chat
from assay.models.base import ModelInfo, NoLikelihoods, Stop, never
from assay.models.generation import GenerationSettings
from assay.models.openai.arguments import is_azure
from assay.models.openai.backend import ServerLM
from assay.models.openai.completions import sampling_fields
from assay.models.openai.server_info import BEGUN, CHAT_ABILITIES, SHORT, TOPS, Ability, read_reply, returns_beginning

_KINDS = ((b"\x89PNG", "png"), (b"\xff\xd8", "jpeg"), (b"GIF8", "gif"), (b"RIFF", "webp"))
_REASONING = re.compile(r"(^|/)(o[1-9]|gpt-5)(-|$|\.)")


def with_images(messages: Sequence[Message], parts: Sequence[Mapping[str, Any]]) -> list[Message]:
    """The last turn of the user with the images (`image_part`) before its text."""
    turns = list(messages)
    at = max(i for i, turn in enumerate(turns) if turn.role == "user")
    content = turns[at].content
    text = ({"type": "text", "text": content},) if isinstance(content, str) else content
    turns[at] = replace(turns[at], content=(*parts, *text))
    return turns


def begun_answer(context: Context) -> str:
    """The text that an answer is to continue (`gen_prefix`); empty where it begins by itself."""
    last = context[-1] if is_chat(context) else None
    return last.content if last and last.role == "assistant" and isinstance(last.content, str) else ""


def schema_fields(settings: GenerationSettings) -> dict[str, Any]:
    schema = {"name": "answer", "strict": True, "schema": settings.answer_schema}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def image_part(image: Any, longest: int | None = None) -> dict[str, Any]:
    """
    >>> image_part(b"\\x89PNG")["image_url"]["url"]
    'data:image/png;base64,iVBORw=='
    """
    return {"type": "image_url", "image_url": {"url": data_url(image, longest)}}


def data_url(image: Any, longest: int | None = None) -> str:
    """The image, scaled down where a side has more than `longest` pixels."""
    if isinstance(image, str) and image.startswith("data:"):
        if longest is None:
            return image
        image = base64.b64decode(image.partition(",")[2])
    content = image_bytes(image)
    if longest is not None:
        content = scaled_down(content, longest)
    kind = next((name for mark, name in _KINDS if content.startswith(mark)), None)
    if kind is None:
        raise DataError(f"an image begins with {content[:8]!r}, expected PNG, JPEG, GIF or WebP")
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def scaled_down(content: bytes, longest: int) -> bytes:
    """As it is where it fits; else a PNG of the same shape."""
    if find_spec("PIL") is None:
        raise ConfigError("max_image_side needs the package pillow", hint="pip install pillow")
    from PIL import Image

    with Image.open(io.BytesIO(content)) as picture:
        if max(picture.size) <= longest:
            return content
        smaller = picture.convert("RGBA" if "A" in picture.getbands() else "RGB")
    smaller.thumbnail((longest, longest))
    return image_bytes(smaller)


def image_bytes(image: Any) -> bytes:
    """The encoded file. `{"bytes": …, "path": …}` is how the datasets package writes an image that is not decoded."""
    if isinstance(image, bytes | bytearray):
        return bytes(image)
    if isinstance(image, Mapping):
        return image_bytes(image.get("bytes") or image.get("path"))
    if hasattr(image, "save"):  # PIL
        buffer = io.BytesIO()
        (image if image.mode in ("RGB", "RGBA", "L") else image.convert("RGB")).save(buffer, format="PNG")
        return buffer.getvalue()
    if isinstance(image, str | Path):
        return _file(str(image)).read_bytes()
    raise DataError(f"an image is {type(image).__name__}, expected a file, bytes, or a PIL image")


def _file(name: str) -> Path:
    address = urlsplit(name)
    if address.scheme in ("http", "https", "ftp"):
        raise DataError(
            f"the image {name[:80]} is not a local file",
            hint="Put it next to the task file; only local images are sent.",
        )
    path = Path(unquote(address.path)) if address.scheme == "file" else Path(name)
    if not path.is_file():
        raise DataError(f"there is no image {str(path)[:200]}")
    return path


class LocalChat(ServerLM):
    """Your own chat server.

    With `--apply_chat_template` the server applies the template to the messages. Without it the whole prompt is one
    user message.
    """

    registered_name = "local-chat-completions"
    ENDPOINT = "/chat/completions"
    PROBED: ClassVar[Mapping[str, Ability]] = CHAT_ABILITIES
    TOP_LOGPROBS: ClassVar[Mapping[str, Any]] = {"logprobs": True, "top_logprobs": TOPS}
    chat = "messages"

    def stream(
        self, request_type: str, instances: Sequence[Instance], draws: Sequence[int], stop: Stop = never
    ) -> Iterator[tuple[int, Response]]:
        if request_type in ("loglikelihood", "loglikelihood_rolling"):
            self._no_likelihoods(request_type)
        if request_type == "letters":
            yield from self.stream_label_logprobs(instances, stop)
            return
        if request_type != "generate_until":
            raise self.cannot_answer(request_type)
        if any(begun_answer(instance.args[0]) for instance in instances):
            _ = self.returns_beginnings  # found out here: requests are written on the thread that would wait for it
        if any(instance.args[1].get("answer_schema") for instance in instances):
            _ = self.takes_schemas
        yield from self.stream_generation(instances, draws, stop)

    def loglikelihood(self, requests: Sequence[Instance]) -> list[tuple[float, bool]]:
        self._no_likelihoods("loglikelihood")

    def loglikelihood_rolling(self, requests: Sequence[Instance]) -> list[float]:
        self._no_likelihoods("loglikelihood_rolling")

    def info(self) -> ModelInfo:
        found = super().info()
        return replace(found, capabilities=replace(found.capabilities, likelihoods=False, images=True, tools=True))

    def shown(self, instance: Instance) -> Context:
        context = super().shown(instance)
        media = instance.arguments[2] if len(instance.arguments) > 2 else {}
        images = media.get("visual") if isinstance(media, Mapping) else None
        if not images:
            return context
        turns = context if is_chat(context) else (Message("user", context_text(context)),)
        listed = images if isinstance(images, list | tuple) else [images]
        parts = [image_part(image, self.max_image_side) for image in listed]
        self._usage.images += len(parts)
        self._usage.image_bytes += sum(len(part["image_url"]["url"]) * 3 // 4 for part in parts)
        return tuple(with_images(turns, parts))

    @cached_property
    def returns_beginnings(self) -> bool:
        """Whether the beginning of an answer comes back with the answer."""
        reply = self._reply_to(self.write_generation(BEGUN, SHORT, self.seed))
        return reply is not None and returns_beginning(reply)

    @cached_property
    def takes_schemas(self) -> bool:
        """Whether it can be held to a form (`response_format`): it declines, or it answers with the one word that fits."""
        settings = replace(SHORT, answer_schema={"enum": ["aardvark"]})
        body = {**self.write_generation("Hello", SHORT, self.seed), **schema_fields(settings)}
        reply = self._reply_to(body)
        return reply is not None and "aardvark" in read_reply(reply).text

    def beginning_in_reply(self, context: Context) -> str:
        begun = begun_answer(context)
        return begun if begun and self.returns_beginnings else ""

    def chat_template(self, name: bool | str | None = None) -> str | None:
        return "the server's"

    def write_generation(self, context: Context, settings: GenerationSettings, seed: int | None) -> dict[str, Any]:
        if is_chat(context):
            messages = [turn.to_dict() for turn in context]
        else:
            messages = [{"role": "user", "content": context_text(context)}]
        body: dict[str, Any] = {
            "model": self.model,
            "messages": messages,
            "max_tokens": settings.max_gen_toks,
            "temperature": settings.temperature,
        }
        body |= {**self.thinking_fields(), **sampling_fields(settings)}
        if settings.answer_schema is not None and self.takes_schemas:
            body |= schema_fields(settings)
        if stops := self.stops_to_send(settings):
            body["stop"] = stops
        if messages[-1]["role"] == "assistant":  # an answer that is to be continued, in the words of vLLM
            body |= {"add_generation_prompt": False, "continue_final_message": True}
        if self.is_reasoning_model:
            # They count their thoughts among the tokens, and take neither temperature nor stop strings; text is cut here.
            body["max_completion_tokens"] = body.pop("max_tokens")
            for name in ("temperature", "stop", "top_p"):
                body.pop(name, None)
        return body if seed is None else {**body, "seed": seed}

    @cached_property
    def is_reasoning_model(self) -> bool:
        """Whether it is one of OpenAI's, by its name here or at a gateway, or, at Azure, because it is told how much to
        think: deployments have names of their own."""
        effort = self.reasoning_effort not in (None, "none")
        return bool(_REASONING.search(self.model)) or (is_azure(self.url) and effort)

    @property
    def thinks(self) -> bool:
        return super().thinks or self.is_reasoning_model

    def _no_likelihoods(self, request_type: str) -> NoReturn:
        raise NoLikelihoods(
            f"{self.url}: a chat server cannot score a given text, which {request_type} requests need",
            hint="Choose tasks that generate (assay ls tasks shows the type), or a completions server, hf or vllm.",
        )


class OpenAIChat(LocalChat):
    """OpenAI's own chat endpoint."""

    registered_name = "openai-chat-completions"

    DEFAULT_URL = "https://api.openai.com/v1"
    NEEDS_KEY = True
    PROBED: ClassVar[Mapping[str, Ability]] = {k: v for k, v in CHAT_ABILITIES.items() if k != "continues"}

    def info(self) -> ModelInfo:
        found = super().info()
        return replace(found, capabilities=replace(found.capabilities, continues=False))

    def write_generation(self, context: Context, settings: GenerationSettings, seed: int | None) -> dict[str, Any]:
        body = super().write_generation(context, settings, seed)
        if "max_tokens" in body:
            body["max_completion_tokens"] = body.pop("max_tokens")
        for name in ("add_generation_prompt", "continue_final_message", "top_k", "min_p", "chat_template_kwargs"):
            body.pop(name, None)
        return body
