"""A deterministic model for both harnesses: likelihoods and answers come from a hash of the prompt."""

import re
from hashlib import sha256


class HashLM:
    """Right on sums now and then, so that there is something to flip."""

    def __init__(self, salt: str = "", **_: object) -> None:
        self.salt = salt

    def _digest(self, *parts: str) -> bytes:
        return sha256("\x1f".join([self.salt, *parts]).encode()).digest()

    def loglikelihood(self, requests: list) -> list[tuple[float, bool]]:
        return [(-self._digest(*r.args)[0] / 16 - 1.0, self._digest(*r.args)[1] < 64) for r in requests]

    def loglikelihood_rolling(self, requests: list) -> list[float]:
        return [-len(r.args[0]) * (1 + self._digest(r.args[0])[0] / 256) for r in requests]

    def generate_until(self, requests: list) -> list[str]:
        return [self._answer(r.args[0]) for r in requests]

    def _answer(self, context: str) -> str:
        a, b = (int(n) for n in re.findall(r"\d+", context)[-2:])
        right = self._digest(context)[0] < 160
        return f" {a + b if right else a}" + (" apples" if self._digest(context)[1] < 128 else "")
