"""What a task needs and a server lacks is refused before the first request; what a server gives is kept."""

from __future__ import annotations

import base64
import io
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import assay
from assay.config import RunConfig
from assay.errors import ConfigError
from assay.evaluation import score_again
from assay.instance import Instance
from assay.models import Capabilities, ModelInfo, load_model
from assay.models.ngram import NgramLM
from assay.models.openai.chat import data_url
from assay.results import MetricKey
from assay.run import abilities_of, forecast
from assay.store import ResponseStore

PIXEL = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=")
Answer = Callable[[dict[str, Any]], dict[str, Any]]


@contextmanager
def chat_server(
    answer: Answer, *, lacks: str = "", listing: dict[str, Any] | None = None, goes_on: bool = True
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A chat server whose replies are what `answer` makes of a request's body. It declines requests with what it lacks."""
    bodies: list[dict[str, Any]] = []

    def count(body: dict[str, Any]) -> int:
        """A turn begins with two tokens and ends with one; the answer's turn is begun, or the last one goes on."""
        words = sum(3 + len(str(message["content"]).split()) for message in body["messages"])
        return words - 1 if goes_on and body.get("continue_final_message") else words + 2

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send({"data": [listing or {"id": "m"}]})

        def do_POST(self) -> None:
            bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            if lacks and lacks in bodies[-1]:
                self._send({"error": {"message": f"{lacks} is not known here"}}, 400)
                return
            usage = {"prompt_tokens": count(bodies[-1]), "completion_tokens": 2}
            self._send({"model": "m", "usage": usage, "choices": [answer(bodies[-1])]})

        def _send(self, reply: dict[str, Any], status: int = 200) -> None:
            content = json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", bodies
    finally:
        server.shutdown()
        server.server_close()


def says(text: str | None, finish: str = "stop", **more: Any) -> Answer:
    return lambda body: {"message": {"role": "assistant", "content": text, **more}, "finish_reason": finish}


def lists_b(body: dict[str, Any]) -> dict[str, Any]:
    choice = says("B")(body)
    if body.get("logprobs"):
        tops = [{"token": " B", "logprob": -0.2}, {"token": "the", "logprob": -3.0}]
        choice["logprobs"] = {"content": [{"token": " B", "logprob": -0.2, "top_logprobs": tops}]}
    return choice


def evaluate(url: str, tmp_path: Path, *tasks: str, **more: Any) -> assay.Results:
    return assay.evaluate(
        model="local-chat-completions",
        model_args={"base_url": url, "model": "m", "max_retries": 2},
        tasks=list(tasks),
        store=str(tmp_path / "store.sqlite"),
        limit=4,
        bootstrap_iters=0,
        **more,
    )


def test_a_choice_task_is_refused_with_what_would_work(tmp_path: Path) -> None:
    with chat_server(says("B")) as (url, bodies), pytest.raises(ConfigError) as refused:
        evaluate(url, tmp_path, "demo_capitals_en")
    assert refused.value.message == "demo_capitals_en needs likelihoods, which this model does not give"
    assert refused.value.hint is not None
    assert refused.value.hint.startswith("Try demo_capitals_en:gen or demo_capitals_en:cot;")
    assert len(bodies) <= 1  # the probe, no doc


def test_letters_are_named_where_the_server_lists_tokens(tmp_path: Path) -> None:
    with chat_server(lists_b) as (url, _), pytest.raises(ConfigError) as refused:
        evaluate(url, tmp_path, "demo_capitals_en")
    assert "demo_capitals_en:cot or demo_capitals_en:letters" in str(refused.value.hint)
    with chat_server(says("B")) as (url, _), pytest.raises(ConfigError, match="top_logprobs"):
        evaluate(url, tmp_path, "demo_capitals_en:letters")


@pytest.mark.parametrize(("answer", "form"), [(lists_b, "letters"), (says("B"), "gen")])
def test_style_auto_takes_the_form_that_the_server_can_answer(tmp_path: Path, answer: Answer, form: str) -> None:
    with chat_server(answer) as (url, _):
        result = evaluate(url, tmp_path, "demo_capitals_en", style="auto")
    assert list(result.tasks) == [f"demo_capitals_en:{form}"]


def test_capabilities_of_a_server_are_asked_once() -> None:
    with chat_server(lists_b) as (url, bodies):
        model = load_model("local-chat-completions", {"base_url": url, "model": "m"})
        found = [model.capabilities() for _ in range(3)]
        assert len(bodies) == 11  # tokens listed, images, tools, stop strings; four for seeds, three for going on
        assert model.capabilities(["images"]) == found[0]
        assert len(bodies) == 11
        assert found[0] == Capabilities(likelihoods=False, top_logprobs=True, images=True, tools=True)
        model.close()


def test_what_a_server_can_do_is_kept_in_the_store(tmp_path: Path) -> None:
    with chat_server(lists_b) as (url, bodies), ResponseStore(tmp_path / "store.sqlite") as store:
        for asked in (11, 11):
            model = load_model("local-chat-completions", {"base_url": url, "model": "m"})
            assert abilities_of(model, store).top_logprobs
            assert len(bodies) == asked
            model.close()
        other = load_model("local-chat-completions", {"base_url": url, "model": "another"})
        abilities_of(other, store)
        assert len(bodies) == 22
        other.close()


@pytest.mark.parametrize(
    ("fields", "missing", "reason"),
    [
        ({"tools": [{"name": "add", "parameters": {"type": "object"}}]}, "tools", "gives the model tools to call"),
        (
            {"generation_kwargs": {"until": ["x"], "max_gen_toks": 9000}},
            "",
            "answers of 9,000 tokens, but this model reads",
        ),
    ],
)
def test_tools_and_long_answers_are_refused_where_they_cannot_be_had(
    tmp_path: Path, fields: dict[str, Any], missing: str, reason: str
) -> None:
    (tmp_path / "docs.jsonl").write_text('{"q": "2 + 2?", "a": "4"}\n')
    task: dict[str, Any] = {
        "task": "sums",
        "dataset_path": "json",
        "test_split": "test",
        "output_type": "generate_until",
    }
    task |= {"dataset_kwargs": {"data_files": {"test": str(tmp_path / "docs.jsonl")}}, "doc_to_text": "q"}
    (tmp_path / "sums.yaml").write_text(json.dumps({**task, "doc_to_target": "a", **fields}))
    with chat_server(says("B"), lacks=missing, listing={"id": "m", "max_model_len": 8192}) as (url, bodies):
        with pytest.raises(ConfigError, match=reason):
            evaluate(url, tmp_path, "sums", include_path=[str(tmp_path)])
        assert all("2 + 2?" not in json.dumps(body) for body in bodies)


def by_chance() -> Answer:
    """Another word each time, whatever the seed."""
    words = iter(range(1000))
    return lambda body: says(f"word {next(words)}")(body)


def by_seed(body: dict[str, Any]) -> dict[str, Any]:
    return says(f"word {body.get('seed')}")(body)


@pytest.mark.parametrize(
    ("answer", "arguments", "there"),
    [(by_seed, {}, True), (by_chance(), {}, False), (by_seed, {"seed": None}, False)],
)
def test_whether_a_draw_can_be_had_again_is_found_out(answer: Answer, arguments: dict[str, Any], there: bool) -> None:
    with chat_server(answer) as (url, bodies):
        model = load_model("local-chat-completions", {"base_url": url, "model": "m", **arguments})
        assert model.capabilities(["seeds"]).seeds is there
        assert len(bodies) == (0 if arguments else 4)
        model.close()


@pytest.mark.parametrize(
    ("goes_on", "counted", "text", "there"),
    [
        (True, True, "A", True),
        (False, True, "B, C", False),
        (True, False, ", B, C", True),
        (True, False, "A, B, C", False),
        (True, False, None, True),
    ],
)
def test_whether_a_begun_answer_is_continued_is_found_out_by_tokens_or_by_the_text(
    goes_on: bool, counted: bool, text: str | None, there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not counted:
        monkeypatch.setattr("assay.models.openai.server_info.count_in", lambda *_: 0)
    with chat_server(after_the_beginning(", B, C") if text is None else says(text), goes_on=goes_on) as (url, _):
        model = load_model("local-chat-completions", {"base_url": url, "model": "m"})
        assert model.capabilities(["continues"]).continues is there
        model.close()


def after_the_beginning(text: str) -> Answer:
    """As llama.cpp does: the beginning of the answer that it was sent, and then what it wrote."""

    def answer(body: dict[str, Any]) -> dict[str, Any]:
        last = body["messages"][-1]
        begun = last["content"] if last["role"] == "assistant" else ""
        return {"message": {"content": begun + text}, "finish_reason": "stop"}

    return answer


def test_the_beginning_of_an_answer_that_comes_back_is_no_part_of_it_and_no_stop_string_is_found_there(
    tmp_path: Path,
) -> None:
    free_task(
        tmp_path,
        gen_prefix="Here:\n```\n",
        generation_kwargs={"until": ["\n```"]},
        metric_list=[{"metric": "exact_match"}],
    )
    with chat_server(after_the_beginning("4\n```\nDone.")) as (url, _):
        result = evaluate(url, tmp_path, "sums", apply_chat_template=True, include_path=[str(tmp_path)])
    assert result.tasks["sums"].scores[MetricKey("exact_match", "none")].estimate.value == 1.0


@pytest.mark.parametrize("form", ["gen", "cot"])
def test_an_answer_in_a_chat_ends_with_its_turn_and_not_at_a_blank_line(form: str, tmp_path: Path) -> None:
    """As Qwen2.5-Coder-1.5B-Instruct answers."""
    said = "The best explanation for why the sky is blue is:\n\nD. "
    with chat_server(says(said)) as (url, bodies):
        result = evaluate(url, tmp_path, f"demo_capitals_en:{form}", apply_chat_template=True)
        assert all("stop" not in body for body in bodies if "Answer" in str(body["messages"]))
        assert result.tasks[f"demo_capitals_en:{form}"].health.unparsed == {}
        evaluate(url, tmp_path, "demo_capitals_en:gen", gen_kwargs={"until": ["?"]}, apply_chat_template=True)
        assert bodies[-1]["stop"] == ["?"]


def test_a_reply_without_the_beginning_fails_where_the_server_returns_it_otherwise(tmp_path: Path) -> None:
    free_task(tmp_path, gen_prefix="The sum is")

    def forgets(body: dict[str, Any]) -> dict[str, Any]:
        is_probe = "alphabet" in json.dumps(body)
        return after_the_beginning(" 4")(body) if is_probe else says("The 4")(body)

    with chat_server(forgets) as (url, _):
        result = evaluate(url, tmp_path, "sums", apply_chat_template=True, include_path=[str(tmp_path)])
    assert result.tasks["sums"].health.failed == 1


def test_a_task_that_begins_the_answer_is_refused_where_no_answer_is_continued(tmp_path: Path) -> None:
    shared: dict[str, Any] = {"include_path": [str(tmp_path)]}
    free_task(tmp_path, gen_prefix="The sum is")
    with chat_server(says("4"), goes_on=False) as (url, bodies):
        with pytest.raises(ConfigError, match=r"begins the model's answer \(gen_prefix\)") as refused:
            evaluate(url, tmp_path, "sums", apply_chat_template=True, **shared)
        assert not any("2 + 2?" in json.dumps(body) for body in bodies)
        assert "Leave out --apply_chat_template" in str(refused.value.hint)
        evaluate(url, tmp_path, "sums", **shared)
        assert asked(bodies)["messages"] == [{"role": "user", "content": "2 + 2? The sum is"}]
    with chat_server(says("4")) as (url, bodies):
        evaluate(url, tmp_path, "sums", apply_chat_template=True, **shared)
        assert asked(bodies)["messages"][-1] == {"role": "assistant", "content": "The sum is"}


def test_a_server_that_takes_no_stop_strings_is_sent_none_and_its_answers_are_cut(tmp_path: Path) -> None:
    free_task(tmp_path, generation_kwargs={"until": ["."]})
    with chat_server(says("4. And 5"), lacks="stop") as (url, bodies):
        found = evaluate(url, tmp_path, "sums", include_path=[str(tmp_path)])
    assert found["sums"]["exact_match"].value == 1
    assert "stop" not in asked(bodies)


class NeverStops(NgramLM):
    """Takes no stop strings, and says so."""

    def info(self) -> ModelInfo:
        return replace(super().info(), capabilities=Capabilities(stop_strings=False))


def test_a_task_with_stop_strings_is_refused_where_a_model_takes_none(tmp_path: Path) -> None:
    shared: dict[str, Any] = {"limit": 2, "bootstrap_iters": 0, "store": str(tmp_path / "store.sqlite")}
    with pytest.raises(ConfigError, match="stop strings"):
        assay.evaluate(model=NeverStops(), tasks=["demo_capitals_en:gen"], **shared)
    assay.evaluate(model=NeverStops(), tasks=["demo_capitals_en"], **shared)
    assay.evaluate(model=NeverStops(), tasks=["demo_capitals_en:gen"], gen_kwargs={"until": []}, **shared)


PICTURES = """
task: pictures
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/docs.jsonl}}}}
test_split: test
doc_to_text: "What is this?"
doc_to_target: "a dot"
{media}: ["file"]
generation_kwargs: {{until: ["."], max_gen_toks: 8}}
"""


def pictures(folder: Path, media: str = "doc_to_image") -> list[str]:
    (folder / "dot.png").write_bytes(PIXEL)
    (folder / "docs.jsonl").write_text(json.dumps({"file": str(folder / "dot.png")}) + "\n")
    (folder / "pictures.yaml").write_text(PICTURES.format(folder=folder, media=media))
    return [str(folder)]


def test_images_reach_a_chat_server_as_parts(tmp_path: Path) -> None:
    with chat_server(says("a dot")) as (url, bodies):
        result = evaluate(url, tmp_path, "pictures", include_path=pictures(tmp_path))
    assert result.tasks["pictures"].scores[MetricKey("exact_match", "none")].estimate.value == 1.0
    sent = [body["messages"][0]["content"] for body in bodies if isinstance(body["messages"][0]["content"], list)]
    assert [part["type"] for part in sent[0]] == ["image_url", "text"]
    assert sent[0][0]["image_url"]["url"] == data_url(PIXEL)


def test_large_images_are_scaled_down_and_all_are_counted() -> None:
    picture = io.BytesIO()
    Image.new("RGB", (400, 100), "red").save(picture, format="PNG")
    with chat_server(says("red")) as (url, bodies):
        arguments = {"base_url": url, "model": "m", "max_image_side": 200}
        model = load_model("local-chat-completions", arguments)
        request = Instance("generate_until", {}, ("Colour?", {}, {"visual": [picture.getvalue(), PIXEL]}), 0)
        model.generate_until([request])
        assert model.usage is not None
        assert model.usage.images == 2
        assert model.usage.image_bytes > len(PIXEL)
        plain = load_model("local-chat-completions", {"base_url": url, "model": "m"})
        assert model.fingerprint() != plain.fingerprint()
        model.close()
    large, small = [part["image_url"]["url"] for part in bodies[-1]["messages"][0]["content"][:2]]
    assert Image.open(io.BytesIO(base64.b64decode(large.partition(",")[2]))).size == (200, 50)
    assert small == data_url(PIXEL)


def test_images_are_refused_where_they_would_be_dropped_and_sound_everywhere(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="shows images"):
        assay.evaluate(model="dummy", tasks=["pictures"], include_path=pictures(tmp_path), store=str(tmp_path / "s"))
    with pytest.raises(ConfigError, match="needs sound"):
        assay.evaluate(
            model="dummy",
            tasks=["pictures"],
            include_path=pictures(tmp_path, "doc_to_audio"),
            store=str(tmp_path / "s"),
        )


@pytest.mark.parametrize(
    "answer",
    [
        says("", "length", reasoning_content="Hm, let me"),
        says(None, "length", reasoning="Hm, let me"),
        says("", "length", thinking="Hm, let me"),
        says("<think>Hm, let me", "length"),
        says("<|channel|>analysis<|message|>Hm, let me", "length"),
    ],
)
def test_a_thought_that_never_ended_is_counted_as_that(tmp_path: Path, answer: Answer) -> None:
    with chat_server(answer) as (url, _):
        result = evaluate(url, tmp_path, "demo_capitals_en:gen", max_unfinished=0.5)
    health = result.tasks["demo_capitals_en:gen"].health
    assert (health.unfinished_thought, health.empty) == (4, 0)
    assert "unfinished thought" in str(health.withheld)


# ---------------------------------------------------------------------- models that think


def free_task(folder: Path, **fields: Any) -> str:
    """A task that says nothing of its answers' length."""
    (folder / "docs.jsonl").write_text('{"q": "2 + 2?", "a": "4"}\n')
    task: dict[str, Any] = {
        "task": "sums",
        "dataset_path": "json",
        "test_split": "test",
        "output_type": "generate_until",
    }
    task |= {"dataset_kwargs": {"data_files": {"test": str(folder / "docs.jsonl")}}, "doc_to_text": "q"}
    (folder / "sums.yaml").write_text(json.dumps({**task, "doc_to_target": "a", **fields}))
    return "sums"


def asked(bodies: list[dict[str, Any]]) -> dict[str, Any]:
    (body,) = [body for body in bodies if "2 + 2?" in json.dumps(body)]
    return body


@pytest.mark.parametrize(
    ("context", "arguments", "fields", "length"),
    [
        (131_072, {"enable_thinking": True}, {}, 32_768),
        (8_192, {"reasoning_effort": "high"}, {}, 4_096),
        (8_192, {}, {}, 256),
        (8_192, {"enable_thinking": False}, {}, 256),
        (131_072, {"enable_thinking": True, "max_gen_toks": 99}, {}, 256),
        (131_072, {"enable_thinking": True}, {"generation_kwargs": {"max_gen_toks": 64}}, 64),
        (131_072, {"enable_thinking": True}, {"generation_kwargs": {"until": ["x"]}}, 32_768),
    ],
)
def test_a_model_that_thinks_has_the_room_that_its_context_allows(
    tmp_path: Path, context: int, arguments: dict[str, Any], fields: dict[str, Any], length: int
) -> None:
    with chat_server(says("4"), listing={"id": "m", "max_model_len": context}) as (url, bodies):
        config: dict[str, Any] = {"model_args": {"base_url": url, "model": "m", "price_out": 1.0, **arguments}}
        config |= {"model": "local-chat-completions", "tasks": [free_task(tmp_path, **fields)]}
        config |= {"include_path": [str(tmp_path)], "store": str(tmp_path / "store.sqlite"), "bootstrap_iters": 0}
        assert forecast(RunConfig(**config)).generated_tokens == length
        assay.evaluate(**config, run_dir=str(tmp_path / "run"))
    assert asked(bodies)["max_tokens"] == length
    assert score_again(tmp_path / "run").tasks["sums"].health.failed == 0


@pytest.mark.parametrize(
    ("arguments", "form", "length"),
    [
        ({}, "cot", 1024),
        ({"enable_thinking": True}, "cot", 32_768),
        ({"enable_thinking": True}, "gen", 32_768),
        ({"enable_thinking": True, "gen_kwargs": {"max_gen_toks": 64}}, "cot", 64),
        ({"max_gen_toks": 99}, "cot", 1024),
    ],
)
def test_reasoning_by_request_has_as_much_room_as_thoughts_have(
    tmp_path: Path, arguments: dict[str, Any], form: str, length: int
) -> None:
    given = dict(arguments)
    more = {"gen_kwargs": given.pop("gen_kwargs")} if "gen_kwargs" in given else {}
    with chat_server(says("The answer is (B)."), listing={"id": "m", "max_model_len": 131_072}) as (url, bodies):
        assay.evaluate(
            model="local-chat-completions",
            model_args={"base_url": url, "model": "m", **given},
            tasks=[f"demo_capitals_en:{form}"],
            store=str(tmp_path / "store.sqlite"),
            limit=1,
            bootstrap_iters=0,
            **more,
        )
    assert bodies[-1]["max_tokens"] == length


def test_how_much_to_think_goes_to_the_server_and_into_the_fingerprint(tmp_path: Path) -> None:
    with chat_server(says("4")) as (url, bodies):
        free_task(tmp_path)
        for effort in ("low", "high"):
            bodies.clear()
            arguments = {"base_url": url, "model": "m", "enable_thinking": False}
            assay.evaluate(
                model="local-chat-completions",
                model_args=arguments,
                tasks=["sums"],
                include_path=[str(tmp_path)],
                store=str(tmp_path / "store.sqlite"),
                reasoning_effort=effort,
                bootstrap_iters=0,
            )
            assert asked(bodies)["reasoning_effort"] == effort
            assert asked(bodies)["chat_template_kwargs"] == {"enable_thinking": False}


def test_a_model_that_cannot_be_told_how_much_to_think_says_so() -> None:
    with pytest.raises(ConfigError, match="has no argument 'reasoning_effort'"):
        assay.evaluate(model="ngram", tasks=["demo_capitals_en"], limit=1, reasoning_effort="high")
