"""A server that says it is llama.cpp's and lies: a failed request or a refusal, in bounded time, and no number."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from assay.errors import AssayError
from assay.instance import Instance
from assay.models import load_model
from assay.models.openai.echo import require_logprobs
from assay.models.openai.wire import Unusable

WORDS = 40
TRUE = {token: math.log((token + 1) / sum(range(1, WORDS + 1))) for token in range(WORDS)}
"""What a token is worth after whatever comes before it."""
Change = Callable[[Any], Any]


def ids_of(text: str) -> list[int]:
    return [ord(sign) % WORDS for sign in text]


def place(token: int, count: int, values: dict[int, float] | None = None) -> dict[str, Any]:
    worth = values or TRUE
    listed = sorted(worth, key=worth.__getitem__, reverse=True)[:count]
    tops = [{"id": each, "token": "x", "logprob": worth[each]} for each in listed]
    return {"id": token, "token": "x", "logprob": worth[token], "top_logprobs": tops}


@contextmanager
def server(after_checks: bool = False, **lies: Change) -> Iterator[str]:
    """What stands under the name of a page is done to each of its replies; with `after_checks`, once a test begins."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.endswith("/props"):
                self.reply("props", {"total_slots": 2, "bos_token": "a"})
            else:
                self.reply("models", {"data": [{"id": "m", "meta": {"n_vocab": WORDS, "n_ctx": 512}}]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path.endswith("/tokenize"):
                self.reply("tokenize", {"tokens": ids_of(body["content"])})
                return
            if body.get("echo"):
                self.reply("", {"choices": [{"text": "x"}]})
                return
            token = body["logit_bias"][0][0] if "logit_bias" in body else WORDS - 1
            said = {"choices": [{"text": "x", "index": 0, "logprobs": {"content": [place(token, body["logprobs"])]}}]}
            is_check = len(body["prompt"]) < 20
            self.reply("" if after_checks and is_check else "completions", said)

        def reply(self, name: str, said: Any) -> None:
            data = json.dumps(lies.get(name, lambda said: said)(said)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{httpd.server_port}/v1"
    finally:
        httpd.shutdown()
        httpd.server_close()


def score(url: str) -> list[Any]:
    """The answers to three choices of one question; a refusal of the server is none at all."""
    args = {"base_url": url, "model": "m", "max_retries": 0, "backoff": 0.01, "timeout": 20}
    model = load_model("local-completions", args)
    requests = [Instance("loglikelihood", {}, ("The question that is asked", each), 0) for each in (" b", " cd", " é")]
    began = time.monotonic()
    try:
        answers = dict(model.stream("loglikelihood", requests, [0] * 3))
    except AssayError:
        return []
    finally:
        model.close()
        assert time.monotonic() - began < 15
    return [answer.answer for answer in answers.values() if answer.failure is None]


def test_who_does_not_lie_is_believed() -> None:
    with server() as url:
        found = score(url)
    assert [total for total, _ in found] == pytest.approx(
        [sum(TRUE[token] for token in ids_of(text)) for text in (" b", " cd", " é")]
    )


def changed(**fields: Any) -> Change:
    """The first place of a reply with other values."""

    def change(said: Any) -> Any:
        said["choices"][0]["logprobs"]["content"][0].update(fields)
        return said

    return change


def every(value: float) -> Change:
    def change(said: Any) -> Any:
        [first] = said["choices"][0]["logprobs"]["content"]
        first["logprob"] = value
        for top in first["top_logprobs"]:
            top["logprob"] = value
        return said

    return change


def shifted(said: Any) -> Any:
    """Each reply of this server has other numbers, all of them possible."""
    shifted.by = (shifted.by + 1) % 5  # type: ignore[attr-defined]
    [first] = said["choices"][0]["logprobs"]["content"]
    for each in (first, *first["top_logprobs"]):
        each["logprob"] -= shifted.by  # type: ignore[attr-defined]
    return said


shifted.by = 0  # type: ignore[attr-defined]

COMPLETIONS: dict[str, Change] = {
    "above 0": every(0.5),
    "all of them certain": every(0.0),
    "no numbers": every(math.nan),
    "its own is no number": changed(logprob=math.nan),
    "its own is text": changed(logprob="nan"),
    "its own is another than among the likeliest": changed(logprob=-0.001, id=WORDS - 1),
    "impossible tokens": every(-math.inf),
    "none is listed beside it": changed(top_logprobs=[]),
    "three are listed beside it": lambda said: (
        said["choices"][0]["logprobs"]["content"][0].update(top_logprobs=place(0, 3)["top_logprobs"]) or said
    ),
    "ids are fractions": changed(id=1.5),
    "ids are endless": changed(id=math.inf),
    "no choices": lambda said: {"choices": []},
    "no reply": lambda said: None,
    "other numbers each time": shifted,
}


@pytest.mark.parametrize("after_checks", [False, True])
@pytest.mark.parametrize("lie", COMPLETIONS)
def test_impossible_lists_give_no_number(lie: str, after_checks: bool) -> None:
    with server(after_checks, completions=COMPLETIONS[lie]) as url:
        assert score(url) == []


TOKENS: dict[str, Any] = {
    "none": [],
    "text": "abc",
    "texts": ["a", "b"],
    "nothing": None,
    "negative": [-1] * 9,
    "beyond any vocabulary": [2**40] * 9,
    "fractions": [1.5] * 9,
    "truths": [True] * 9,
    "millions": [7] * 3_000_000,
}


@pytest.mark.parametrize("tokens", TOKENS)
def test_impossible_tokens_give_no_number(tokens: str) -> None:
    with server(tokenize=lambda said: {"tokens": TOKENS[tokens]}) as url:
        assert score(url) == []


@pytest.mark.parametrize("said", [10**9, -3, "many", [], None, math.inf, True])
def test_odd_numbers_of_slots_are_one_or_as_many_as_there_may_be(said: Any) -> None:
    with server(props=lambda props: {**props, "total_slots": said}) as url:
        assert len(score(url)) == 3


@pytest.mark.parametrize("said", ["many", -5, 0, None, 1.5, True])
def test_an_odd_size_of_the_vocabulary_is_not_known(said: Any) -> None:
    with server(models=lambda _: {"data": [{"id": "m", "meta": {"n_vocab": said, "n_ctx": said}}]}) as url:
        assert len(score(url)) == 3


def test_what_is_no_number_is_no_log_probability() -> None:
    with pytest.raises(Unusable, match="no number"):
        require_logprobs([-1.0, math.nan])
