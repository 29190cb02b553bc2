"""Conversations: the prompts of later turns, word for word, and what of the answers is scored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import datasets
import pytest

import assay
from assay.config import TaskConfig
from assay.errors import ConfigError, DataError
from assay.tasks import ConversationTask, DocRequests, RequestOptions, Task

DOCS = [
    {"q": "Capital of France?", "a": "Paris", "then": "And its river?"},
    {"q": "Capital of Peru?", "a": "Lima", "then": ""},
]


def make_task(**fields: Any) -> Task:
    given: dict[str, Any] = {
        "task": "talk",
        "custom_dataset": lambda **_: {
            "train": datasets.Dataset.from_list([{"q": "Capital of Laos?", "a": "Vientiane", "then": ""}]),
            "test": datasets.Dataset.from_list(DOCS),
        },
        "test_split": "test",
        "fewshot_split": "train",
        "doc_to_text": "Q: {{q}}",
        "doc_to_target": "{{a}}",
        "turns": ["Are you sure that it is {{answers[-1]}}?"],
        "metric_list": ["exact_match"],
        **fields,
    }
    return Task.from_config(TaskConfig(**given))


def template(messages: list[dict[str, str]], add_generation_prompt: bool) -> str:
    turns = "".join(f"<{message['role']}>{message['content']}" for message in messages)
    return turns + ("<assistant>" if add_generation_prompt else "")


def first(task: Task, **options: Any) -> DocRequests:
    return next(iter(task.iter_requests(RequestOptions(**options))))


def answer(task: Task, requests: DocRequests, *answers: str) -> list[str]:
    """Answer round after round, as a run does; the prompts of all rounds."""
    for text in answers:
        requests.instances[-1].resps = [text]
        requests.instances += task.next_requests(requests)
    return [instance.arguments[0] for instance in requests.instances]


def test_turns_make_a_conversation_and_nothing_else_does() -> None:
    assert isinstance(make_task(), ConversationTask)
    assert not isinstance(make_task(turns=None), ConversationTask)
    assert make_task(turns=None).next_requests(first(make_task(turns=None))) == []


def test_a_plain_conversation() -> None:
    task = make_task(turns=["Are you sure that it is {{answers[-1]}}?", "{{history | length}} so far. {{q}}"])
    assert answer(task, first(task), "Paris", "Yes.", "Good.") == [
        "Q: Capital of France?",
        "Q: Capital of France? Paris\n\nAre you sure that it is Paris?",
        "Q: Capital of France? Paris\n\nAre you sure that it is Paris? Yes.\n\n4 so far. Capital of France?",
    ]


def test_a_space_that_the_model_wrote_stands_for_the_delimiter() -> None:
    task = make_task()
    assert answer(task, first(task), " Paris")[1] == "Q: Capital of France? Paris\n\nAre you sure that it is  Paris?"


def test_own_delimiters_shots_and_a_system_text() -> None:
    task = make_task(target_delimiter="\nA: ", fewshot_delimiter="\n--\n", description="Answer.\n")
    prompts = answer(task, first(task, num_fewshot=1, system_instruction="Be brief."), "Paris")
    assert prompts[0] == "Be brief.\n--\nAnswer.\nQ: Capital of Laos?\nA: Vientiane\n--\nQ: Capital of France?"
    assert prompts[1] == prompts[0] + "\nA: Paris\n--\nAre you sure that it is Paris?"


def test_a_prefix_opens_every_answer() -> None:
    task = make_task(gen_prefix="It is (")
    assert answer(task, first(task), "Paris).") == [
        "Q: Capital of France? It is (",
        "Q: Capital of France? It is (Paris).\n\nAre you sure that it is It is (Paris).? It is (",
    ]


@pytest.mark.parametrize("multiturn", [True, False])
def test_a_conversation_through_a_chat_template(multiturn: bool) -> None:
    task = make_task(description="Be brief.")
    options = {"apply_chat_template": True, "chat_template": template, "fewshot_as_multiturn": multiturn}
    prompts = answer(task, first(task, num_fewshot=1, **options), "Paris")
    shot = (
        "<user>Q: Capital of Laos?<assistant>Vientiane<user>"
        if multiturn
        else "<user>Q: Capital of Laos? Vientiane\n\n"
    )
    opening = f"<system>Be brief.{shot}Q: Capital of France?<assistant>"
    assert prompts == [opening, f"{opening}Paris<user>Are you sure that it is Paris?<assistant>"]


def test_a_prefix_leaves_the_assistants_turn_open() -> None:
    task = make_task(gen_prefix="It is", turns=["Sure?"])
    prompts = answer(task, first(task, apply_chat_template=True, chat_template=template), " Paris.")
    assert prompts == [
        "<user>Q: Capital of France?<assistant>It is",
        "<user>Q: Capital of France?<assistant>It is Paris.<user>Sure?<assistant>It is",
    ]


def test_a_turn_is_a_column_or_a_function_and_an_empty_one_ends_the_conversation() -> None:
    def retort(doc: dict[str, Any]) -> str:
        return f"{doc['answers'][0]}, {doc['history'][-1]['role']}?"

    task = make_task(turns=["then", retort])
    france, peru = task.iter_requests(RequestOptions())
    prompts = answer(task, france, "Paris", "Seine", "Yes")
    assert [prompt.rpartition("\n\n")[2] for prompt in prompts[1:]] == ["And its river?", "Paris, assistant?"]
    assert len(answer(task, peru, "Lima")) == 1


def test_requests_of_later_turns_are_like_the_first_and_count_on() -> None:
    task = make_task(generation_kwargs={"max_gen_toks": 7})
    requests = first(task, gen_kwargs={"temperature": 0.5})
    answer(task, requests, "Paris")
    one, two = requests.instances
    assert (two.idx, two.doc_id, two.task_name, two.repeats, two.target) == (1, 0, "talk", 1, "Paris")
    assert two.arguments[1] == one.arguments[1] == {"until": ["\n\n"], "max_gen_toks": 7, "temperature": 0.5}
    assert two.arguments[1] is not one.arguments[1]


def test_asking_for_the_next_round_twice_gives_the_same_requests() -> None:
    """A run that is resumed builds its rounds again from the kept answers."""
    task = make_task(turns=["Sure?", "Really?"])
    requests = first(task)
    requests.instances[0].resps = ["Paris"]
    once, again = (task.next_requests(requests) for _ in range(2))
    assert once == again
    requests.instances += again
    assert answer(task, requests, "Yes")[-1] == "Q: Capital of France? Paris\n\nSure? Yes\n\nReally?"


def test_a_failed_turn_ends_the_conversation() -> None:
    task = make_task()
    requests = first(task)
    requests.instances[0].failure = "the server said no"
    assert task.next_requests(requests) == []


def test_the_last_answer_is_scored() -> None:
    task = make_task(turns=["Sure?"])
    instances = []
    for requests, last in zip(task.iter_requests(RequestOptions()), ("Paris", "Quito")):
        answer(task, requests, "Lima", last)
        instances += requests.instances
    assert len(instances) == 4
    task.apply_filters(instances)
    assert task.process_instances(instances) == {("exact_match", "none"): [1.0, 0.0]}


def test_a_class_of_ones_own_says_what_comes_next() -> None:
    class Insistent(ConversationTask):
        def next_turn(self, doc: dict[str, Any], history: list[dict[str, str]]) -> list[dict[str, str]] | None:
            if len(history) > 2:
                return None
            said = history[-1]["content"]
            return [{"role": "system", "content": "Doubt."}, {"role": "user", "content": f"{said}?"}]

    task = Insistent(make_task(turns=None).config)
    assert answer(task, first(task), "Paris", "Yes.")[1:] == ["Q: Capital of France? Paris\n\nDoubt.\n\nParis?"]
    chat = first(task, apply_chat_template=True, chat_template=template)
    assert answer(task, chat, "Paris")[1] == (
        "<user>Q: Capital of France?<assistant>Paris<system>Doubt.<user>Paris?<assistant>"
    )


def test_draws_of_a_scorer_of_turns_are_refused_before_anything_is_sent() -> None:
    for task, options in ((make_task(repeats=4, scorer="turns"), {}), (make_task(scorer="turns"), {"repeats": 4})):
        with pytest.raises(ConfigError, match=r"task talk: .* every turn"):
            first(task, **options)


def test_each_draw_is_a_conversation_of_its_own(tmp_path: Path) -> None:
    from assay.models import LM

    class Unsure(LM):
        """Says something else in every draw, and what it said before when it is asked again."""

        def loglikelihood(self, requests: Any) -> Any: ...
        def loglikelihood_rolling(self, requests: Any) -> Any: ...

        def generate_until(self, requests: Any) -> list[str]:
            return [
                ("Paris" if each.draw else "Lyon")
                if "sure" not in each.args[0]
                else each.args[0].split()[-1].rstrip("?")
                for each in requests
            ]

        def fingerprint(self) -> str:
            return "unsure"

    task = make_task(
        repeats=3,
        generation_kwargs={"until": [], "do_sample": True, "temperature": 1.0},
        filter_list=[{"name": "all", "filter": []}],
        metric_list=[{"metric": "exact_match", "reducer": "pass^2"}],
    )
    result = assay.evaluate(
        tasks=[task], model=Unsure(), limit=1, store=str(tmp_path / "s"), run_dir=str(tmp_path / "r")
    )
    (score,) = result.tasks["talk"].scores.values()
    assert score.estimate.value == pytest.approx(1 / 3)  # of three draws, two end with Paris


def test_a_run_that_repeats_is_refused_before_its_first_task_is_asked(tmp_path: Path) -> None:
    class Unasked:
        def _asked(self, requests: Any) -> Any:
            raise AssertionError("nothing may be asked")

        loglikelihood = loglikelihood_rolling = generate_until = _asked

    # More docs than one window of requests holds: the first task is asked before the second one's requests are built.
    docs = [json.dumps({**DOCS[0], "q": f"Capital {i}?"}) for i in range(5000)]
    (tmp_path / "docs.jsonl").write_text("\n".join(docs))
    for name, turns in (("a_plain", ""), ("b_talk", "turns: ['Sure?']\nscorer: turns\n")):
        (tmp_path / f"{name}.yaml").write_text(
            f"task: {name}\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: docs.jsonl}}}}\n"
            f"test_split: test\ndoc_to_text: q\ndoc_to_target: a\n{turns}"
        )
    with pytest.raises(ConfigError, match="task b_talk: "):
        assay.evaluate(model=Unasked(), tasks=["a_plain", "b_talk"], include_path=[str(tmp_path)], repeats=2)


def test_turns_need_written_answers() -> None:
    with pytest.raises(ConfigError, match="output_type is multiple_choice"):
        make_task(output_type="multiple_choice", doc_to_choice=["Paris", "Lima"])


def test_a_turn_that_fails_names_task_and_doc() -> None:
    task = make_task(turns=["{{nobody}}"])
    with pytest.raises(DataError, match=r"task talk, doc 0: .*'nobody' is undefined"):
        answer(task, first(task), "Paris")
