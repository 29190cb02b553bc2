"""Every other provider, through the package litellm: its calls in place of HTTP requests of our own."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from importlib.util import find_spec
from inspect import signature
from math import inf
from typing import Any, TypeVar

from assay.errors import ConfigError, ModelError, install_hint
from assay.instance import Context
from assay.models.base import ModelInfo, Stop, check_arguments, never
from assay.models.generation import GenerationSettings
from assay.models.openai.backend import ServerLM
from assay.models.openai.chat import LocalChat
from assay.models.openai.pacing import RetryPolicy, Tries
from assay.models.openai.transport import Transport
from assay.models.openai.wire import Failed, Job, Retry, Settings, Unusable

T = TypeVar("T")
MOST_THREADS = 16
_HOPELESS = ("AuthenticationError", "PermissionDeniedError", "NotFoundError", "BudgetExceededError")
_REFUSED = ("BadRequestError", "ContextWindowExceededError", "ContentPolicyViolationError", "UnsupportedParamsError")


class LiteLLMTransport(Transport):
    """Sends jobs by `litellm.completion`, from a few threads."""

    def __init__(self, settings: Settings, base_url: str | None) -> None:
        super().__init__(settings)
        self.base_url = base_url

    def send_all(
        self, jobs: Iterable[Job[T]], stop: Stop = never, *, most: float = inf
    ) -> Iterator[tuple[int, T | Failed]]:
        numbered = iter(enumerate(jobs))
        lock = threading.Lock()
        outcomes: queue.SimpleQueue[tuple[int, T | Failed] | BaseException | None] = queue.SimpleQueue()

        def work() -> None:
            try:
                while not stop():
                    with lock:
                        one = next(numbered, None)
                    if one is None:
                        break
                    outcome = self._answer(one[1], stop)
                    if outcome is not None:
                        outcomes.put((one[0], outcome))
            except BaseException as error:
                outcomes.put(error)
            outcomes.put(None)

        count = int(min(self.settings.ceiling, MOST_THREADS, most))
        for _ in range(count):
            threading.Thread(target=work, name="assay-litellm", daemon=True).start()
        while count:
            some = outcomes.get()
            if isinstance(some, BaseException):
                raise some
            if some is None:
                count -= 1
            else:
                yield some

    def get(self, url: str) -> Any:
        return None  # providers list their models each in their own way

    def close(self) -> None:
        pass

    def _answer(self, job: Job[T], stop: Stop) -> T | Failed | None:
        """The value, or why there is none; None when it was told to stop between two tries."""
        policy = RetryPolicy(self.settings.max_retries, self.settings.backoff)
        tries = Tries()
        while True:
            outcome = self._try(job)
            if not isinstance(outcome, Retry):
                return outcome
            self.retries += 1
            tries = tries.plus(outcome)
            wait = policy.wait_after(tries, outcome, self.chance())
            if wait is None:
                return Failed(f"given up after {tries.total} tries; the last: {outcome.reason}")
            if stop():
                return None
            time.sleep(wait.own)

    def _try(self, job: Job[T]) -> T | Failed | Retry:
        litellm = package()
        place = {"api_base": self.base_url} if self.base_url else {}
        try:
            reply = litellm.completion(
                **job.body, **place, timeout=self.settings.timeout, num_retries=0, max_retries=0, drop_params=True
            ).model_dump()
        except Exception as error:
            return self._failed(error)
        try:
            return job.read(reply)
        except Unusable as error:
            return Retry(f"unusable reply: {error}") if error.again else Failed(f"unusable reply: {error}")
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            return Retry(f"malformed reply: {type(error).__name__}: {error}")

    def _failed(self, error: Exception) -> Failed | Retry:
        kind, said = type(error).__name__, " ".join(str(error).split())[:300]
        if kind in _HOPELESS:
            raise ModelError(
                f"litellm: {kind}: {said}", hint="Check the model's name and the provider's key."
            ) from error
        if kind in _REFUSED:
            return Failed(f"{kind}: {said}", refused=True)
        return Retry(f"{kind}: {said}", throttled=kind in ("RateLimitError", "ServiceUnavailableError"))


def package() -> Any:
    """litellm, without the list of prices that it would fetch when it is imported."""
    if find_spec("litellm") is None:
        raise ConfigError("this model needs the package litellm", hint=install_hint("litellm"))
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import litellm

    litellm.suppress_debug_info = True
    return litellm


class LiteLLM(LocalChat):
    """Any model that litellm knows, by its name there: `model=anthropic/claude-…`, `bedrock/…`, `gemini/…`.

    Keys come from the environment, under the names that litellm reads (`ANTHROPIC_API_KEY`, …). Settings that a provider
    does not have, such as a seed, are left out by litellm.
    """

    registered_name = "litellm"

    PROVIDER = ""
    """Put before names without one."""

    def __init__(self, model: str | None = None, base_url: str | None = None, **settings: Any) -> None:
        if not model:
            raise ConfigError("litellm needs a model name", hint="Add model=PROVIDER/NAME to --model_args.")
        if settings.get("batch"):
            raise ConfigError("batch works only with OpenAI's own endpoints", hint="Leave out batch.")
        check_arguments(self.class_name, settings, list(signature(ServerLM.__init__).parameters))
        package()
        self._base_url = base_url
        if self.PROVIDER and not model.startswith(f"{self.PROVIDER}/"):
            model = f"{self.PROVIDER}/{model}"
        super().__init__(model, base_url or "http://provider.invalid", **settings)
        self.url = base_url or f"litellm ({model})"
        self._counts_tokens = False

    def info(self) -> ModelInfo:
        return replace(super().info(), streams_at_once=1)  # each has threads of its own

    def make_transport(self, settings: Settings) -> Transport:
        return LiteLLMTransport(settings, self._base_url)

    def write_generation(self, context: Context, settings: GenerationSettings, seed: int | None) -> dict[str, Any]:
        body: Mapping[str, Any] = super().write_generation(context, settings, seed)
        ours = ("add_generation_prompt", "continue_final_message")  # words of vLLM's, which no provider knows
        return {name: value for name, value in body.items() if name not in ours}


class AnthropicChat(LiteLLM):
    """Anthropic's models: `model=claude-…`."""

    registered_name = "anthropic-chat-completions"

    PROVIDER = "anthropic"
