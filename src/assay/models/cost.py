"""What a run may cost: checked before each request, by the most that it can cost."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any

from assay.errors import ModelError

IMAGE_TOKENS = 4096
"""That an image may count as, at most; its bytes say nothing of it."""


class CostReached(ModelError):
    """The next request might exceed the limit. All answers so far are in the store."""

    exit_code = 130


class CostLimit:
    """One limit for all models of a run. Requests in progress are counted at the most they can cost.

    >>> limit = CostLimit(1.0)
    >>> limit.reserve(0.7), limit.reserve(0.7)
    (True, False)
    >>> limit.settle(0.7, spent=0.1)
    >>> limit.reserve(0.7)
    True
    """

    def __init__(self, most: float) -> None:
        self.most = most
        self.spent = self.reserved = 0.0
        self._lock = threading.Lock()

    def reserve(self, cost: float) -> bool:
        """Whether this much may still be spent; if so it is set aside."""
        with self._lock:
            if self.spent + self.reserved + cost > self.most:
                return False
            self.reserved += cost
            return True

    def settle(self, reserved: float, *, spent: float = 0.0) -> None:
        """A request is over."""
        with self._lock:
            self.reserved = max(0.0, self.reserved - reserved)
            self.spent += spent

    def reached(self) -> CostReached:
        return CostReached(
            f"stopped: {self.spent:.4g} of --max_cost {self.most:g} is spent, and the next request might exceed it",
            hint="All answers are stored. Run the same command with a higher --max_cost to continue from here.",
        )


def most_cost(body: Mapping[str, Any], prices: tuple[float, float]) -> float:
    """The most that a request can cost: no token has less than a byte, and no answer is longer than requested.

    >>> round(most_cost({"prompt": "x" * 80, "max_tokens": 100}, (1.0, 10.0)) * 1e6)
    1094
    """
    shown = {name: body[name] for name in ("prompt", "messages", "tools") if name in body}
    images = 0

    def without_images(part: Any) -> Any:
        nonlocal images
        if isinstance(part, Mapping):
            if part.get("type") == "image_url":
                images += 1
                return ""
            return {name: without_images(value) for name, value in part.items()}
        return [without_images(each) for each in part] if isinstance(part, list | tuple) else part

    written = len(json.dumps(without_images(shown), ensure_ascii=False).encode("utf-8", "replace"))
    prompts = body.get("prompt")
    count = len(prompts) if isinstance(prompts, list) and prompts and not isinstance(prompts[0], int) else 1
    answer = count * int(body.get("max_tokens") or body.get("max_completion_tokens") or 0)
    return ((written + IMAGE_TOKENS * images) * prices[0] + answer * prices[1]) / 1e6
