"""lm-evaluation-harness's side, run by a Python that has it: `rival.py FOLDER SETTINGS.json OUT.json`."""

from __future__ import annotations

import collections
import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import cases  # type: ignore[import-not-found]
import lm_eval  # type: ignore[import-not-found, unused-ignore]
from lm_eval.api.model import LM  # type: ignore[import-not-found, unused-ignore]
from lm_eval.tasks import TaskManager  # type: ignore[import-not-found, unused-ignore]

NEWER = hasattr(__import__("lm_eval.api.registry", fromlist=["x"]), "register_scorer")


class Hashing(LM):  # type: ignore[misc, unused-ignore]
    tokenizer_name = "hashing"

    def loglikelihood(self, requests: Any, **_: Any) -> Any:
        return [cases.loglikelihood(*request.args[:2]) for request in requests]

    def loglikelihood_rolling(self, requests: Any, **_: Any) -> Any:
        found = [cases.rolling(request.args[-1]) for request in requests]
        return [(ll, False) for ll in found] if NEWER else found

    def generate_until(self, requests: Any, **_: Any) -> Any:
        seen: collections.Counter[str] = collections.Counter()
        answers = []
        for request in requests:
            context, settings = request.args[:2]
            draw = seen[context] if settings.get("do_sample") else 0
            seen[context] += 1
            answers.append(cases.answer(context, draw))
        return answers

    def apply_chat_template(self, chat_history: Any, add_generation_prompt: bool = True) -> str:
        return str(cases.chat(chat_history, add_generation_prompt))

    def chat_template(self, chat_template: Any = False) -> str:
        return "hashing"


def main() -> None:
    folder, settings, out = sys.argv[1:]
    found = lm_eval.simple_evaluate(
        model=Hashing(),
        tasks=cases.ROOTS,
        task_manager=TaskManager(include_path=folder, include_defaults=False),
        bootstrap_iters=cases.BOOTSTRAP_ITERS,
        log_samples=True,
        **json.loads(Path(settings).read_text()),
    )
    kept = {"version": version("lm_eval"), **{name: found[name] for name in ("results", "samples")}}
    Path(out).write_text(json.dumps(kept, default=str))


main()
