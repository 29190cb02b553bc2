"""One side of `servers.py`: asks the stub as many requests as it is told, and prints what that took, one line a cell.

Cells come on standard input as JSON: kind (generation, chat, echo), url, requests, concurrent, tokens. Sides: `assay`,
`lm_eval` (in an interpreter of its own), and `bare`, which is aiohttp alone: it writes requests, reads bytes, and does
nothing with them.
"""

from __future__ import annotations

import asyncio
import gc
import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from _server_prompts import WORD, prompt_of

SETTINGS: dict[str, Any] = {"until": ["\n\n"], "max_gen_toks": 32}
CHOICES = "ABCD"


def pairs(cell: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Questions of four choices, as many as make the number of requests."""
    for at in range(cell["requests"]):
        yield prompt_of(at // 4, cell["tokens"] - 1), f" {CHOICES[at % 4]}"


def assay(cell: dict[str, Any]) -> Callable[[], int]:
    from assay.instance import Instance
    from assay.models import load_model

    gc.set_threshold(400_000)  # as in a run
    kind = "loglikelihood" if cell["kind"] == "echo" else "generate_until"
    name = "local-chat-completions" if cell["kind"] == "chat" else "local-completions"
    model = load_model(name, {"base_url": cell["url"], "model": "stub", "num_concurrent": cell["concurrent"]})
    texts = (
        pairs(cell) if cell["kind"] == "echo" else ((f"{prompt_of(i, 64)}", SETTINGS) for i in range(cell["requests"]))
    )
    instances = [Instance(kind, {}, arguments, 0) for arguments in texts]

    def ask() -> int:
        answers = list(model.stream(kind, instances, [0] * len(instances)))
        model.close()
        return sum(answer.failure is None for _, answer in answers)

    return ask


def lm_eval(cell: dict[str, Any]) -> Callable[[], int]:
    import logging

    from lm_eval.api.instance import Instance
    from lm_eval.models.api_models import JsonChatStr
    from lm_eval.models.openai_completions import LocalChatCompletion, LocalCompletionsAPI

    logging.disable(logging.WARNING)
    settings = {"model": "stub", "num_concurrent": cell["concurrent"], "max_length": 4096}
    if cell["kind"] == "echo":
        model = LocalCompletionsAPI(
            base_url=f"{cell['url']}/completions",
            tokenizer_backend="huggingface",
            tokenizer=tokenizer(cell),
            **settings,
        )
        instances = [Instance("loglikelihood", {}, pair, 0) for pair in pairs(cell)]
        return lambda: len(model.loglikelihood(instances))
    if cell["kind"] == "chat":
        model = LocalChatCompletion(base_url=f"{cell['url']}/chat/completions", **settings)
        prompts: list[Any] = [
            JsonChatStr(json.dumps([{"role": "user", "content": prompt_of(i, 64)}])) for i in range(cell["requests"])
        ]
    else:
        model = LocalCompletionsAPI(base_url=f"{cell['url']}/completions", tokenizer_backend=None, **settings)
        prompts = [prompt_of(i, 64) for i in range(cell["requests"])]
    instances = [Instance("generate_until", {}, (prompt, dict(SETTINGS)), 0) for prompt in prompts]
    return lambda: len(model.generate_until(instances))


def tokenizer(cell: dict[str, Any]) -> str:
    """The stub's: a word is a token. lm-evaluation-harness counts tokens; without one it cannot ask."""
    folder = Path(cell["folder"]) / "tokenizer"
    if not folder.exists():
        import tokenizers
        import transformers

        words = [f"{i:08}" for i in range(10_000)] + [WORD, *CHOICES, "<eos>"]
        model = tokenizers.models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<eos>")
        raw = tokenizers.Tokenizer(model)
        raw.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
        transformers.PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="<eos>").save_pretrained(folder)
    return str(folder)


def bare(cell: dict[str, Any]) -> Callable[[], int]:
    import aiohttp

    if cell["kind"] == "echo":
        url, more = f"{cell['url']}/completions", {"echo": True, "logprobs": 1, "max_tokens": 1, "temperature": 0}
        bodies = [{"model": "stub", "prompt": a + b, **more} for a, b in pairs(cell)]
    else:
        url, more = f"{cell['url']}/completions", {"max_tokens": 32, "temperature": 0, "stop": ["\n\n"], "seed": 1234}
        bodies = [{"model": "stub", "prompt": prompt_of(i, 64), **more} for i in range(cell["requests"])]
    if cell["kind"] == "chat":
        url = f"{cell['url']}/chat/completions"
        bodies = [{**b, "messages": [{"role": "user", "content": b.pop("prompt")}]} for b in bodies]
    written = [json.dumps(body).encode() for body in bodies]

    async def run() -> int:
        left = iter(written)
        headers = {"Content-Type": "application/json"}
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector, headers=headers) as session:

            async def worker() -> int:
                done = 0
                for body in left:
                    async with session.post(url, data=body) as response:
                        await response.read()
                    done += 1
                return done

            return sum(await asyncio.gather(*(worker() for _ in range(cell["concurrent"]))))

    return lambda: asyncio.run(run())


def main() -> None:
    make = {"assay": assay, "lm_eval": lm_eval, "bare": bare}[sys.argv[1]]
    for line in sys.stdin:
        cell = json.loads(line)
        ask = make(cell)
        before, began = time.process_time(), time.perf_counter()
        answered = ask()
        seconds, processor = time.perf_counter() - began, time.process_time() - before
        megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            "CELL "
            + json.dumps({"answered": answered, "seconds": seconds, "processor": processor, "megabytes": megabytes}),
            flush=True,
        )


if __name__ == "__main__":
    main()
