"""Styled YAML tasks, Python tasks and variants: the same prompts by three ways."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay.config import GroupConfig, TaskConfig
from assay.errors import ConfigError, DataError
from assay.instance import Instance
from assay.scoring import ensembles_of
from assay.tasks import RequestOptions, Task, TaskManager, apply_variant
from assay.tasks.python_tasks import read_python_tasks
from assay.tasks.questions import derive_question, index_of
from assay.tasks.styled import apply_style

TEST = [
    {"question": "te0?", "options": ["x", "y"], "answer": 1},
    {"question": "te1?", "options": ["v", "w"], "answer": 0},
]
TRAIN = [{"question": f"tr{i}?", "options": ["a", "b"], "answer": i % 2} for i in range(10)]
BASE: dict[str, Any] = {
    "task": "t",
    "dataset_path": "made/up",
    "test_split": "test",
    "fewshot_split": "train",
    "doc_to_choice": "options",
    "doc_to_target": "answer",
}


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    for config in ("default", "europe", "asia"):
        folder = tmp_path / "made" / "up" / config
        folder.mkdir(parents=True)
        for split, docs in (("test", TEST), ("train", TRAIN)):
            (folder / f"{split}.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in docs))
    return tmp_path


def asked(config: TaskConfig, mirror: Path, **options: Any) -> list[tuple[Any, ...]]:
    task = Task.from_config(config, data_dir=mirror)
    return [i.arguments for i in next(task.iter_requests(RequestOptions(**options))).instances]


def test_style_words_a_yaml_task(mirror: Path) -> None:
    config = TaskConfig(**BASE, doc_to_question="question", style="mc")
    prompt = "Question: te0?\nA. x\nB. y\nAnswer:"
    assert asked(config, mirror) == [(prompt, " A"), (prompt, " B")]
    [(context, _), _] = asked(config, mirror, num_fewshot=1)
    assert context == f"Question: tr7?\nA. a\nB. b\nAnswer: B\n\n{prompt}"


def test_style_options_and_language(mirror: Path) -> None:
    config = TaskConfig(
        **BASE, doc_to_question="{{question}}", style={"name": "cloze", "cue_text": "A:"}, language="German"
    )
    assert asked(config, mirror) == [("Frage: te0?\nA:", " x"), ("Frage: te0?\nA:", " y")]


def test_only_the_right_answer_is_scored(mirror: Path) -> None:
    config = TaskConfig(**BASE, doc_to_question="question", style="bpb")
    task = Task.from_config(config, data_dir=mirror)
    requests = next(task.iter_requests())
    assert [i.arguments for i in requests.instances] == [("Question: te0?\nAnswer:", " y")]
    assert (requests.target, requests.instances[0].choices) == (0, (" y",))
    assert [metric.name for metric in task.config.metric_list or []] == ["gold_bits_per_byte"]


def test_free_answers(mirror: Path) -> None:
    config = TaskConfig(**BASE, doc_to_question="question", style="mc_completion")
    task = Task.from_config(config, data_dir=mirror)
    requests = next(task.iter_requests(RequestOptions(num_fewshot=1)))
    assert task.OUTPUT_TYPE == "generate_until"
    assert requests.target == "y"
    assert requests.instances[0].arguments[0].startswith("Question: tr7?\nA. a\nB. b\nAnswer: b\n\n")
    assert requests.instances[0].arguments[1]["until"] == ["\n"]


def test_the_cue_opens_the_assistants_turn(mirror: Path) -> None:
    seen: list[Any] = []

    def chat(messages: list[dict[str, str]], add_generation_prompt: bool) -> str:
        seen.append((messages, add_generation_prompt))
        return "P"

    config = TaskConfig(**BASE, doc_to_question="question", style="mc")
    options = {"apply_chat_template": True, "chat_template": chat, "fewshot_as_multiturn": True, "num_fewshot": 1}
    assert asked(config, mirror, **options) == [("P", " A"), ("P", " B")]
    messages, add_generation_prompt = seen[0]
    assert [m["content"] for m in messages] == [
        "Question: tr7?\nA. a\nB. b\n",
        "Answer: B",
        "Question: te0?\nA. x\nB. y\n",
        "Answer:",
    ]
    assert not add_generation_prompt


def test_listed_metrics_win(mirror: Path) -> None:
    config = TaskConfig(**BASE, doc_to_question="question", style="mc", metric_list=["acc"])
    assert [m.name for m in Task.from_config(config).config.metric_list or []] == ["acc"]


def test_a_style_needs_choices() -> None:
    with pytest.raises(ConfigError, match="needs choices"):
        Task.from_config(TaskConfig(task="t", dataset_path="d", test_split="test", style="mc", doc_to_question="q"))


# ---------------------------------------------------------------------- variants

PLAIN = TaskConfig(
    **BASE,
    output_type="multiple_choice",
    doc_to_text="Question: {{question}}\nAnswer:",
    metric_list=["acc"],
    metadata={"version": 1.0},
)


def test_variants_of_a_plain_choice_task(mirror: Path) -> None:
    assert asked(apply_variant(PLAIN, ["cloze"]), mirror) == asked(PLAIN, mirror)
    assert asked(apply_variant(PLAIN, ["mc"]), mirror)[1] == ("Question: te0?\nA. x\nB. y\nAnswer:", " B")
    assert asked(apply_variant(PLAIN, ["bpb"]), mirror) == [("Question: te0?\nAnswer:", " y")]
    shots = apply_variant(PLAIN, ["mc", "2shot"])
    assert asked(shots, mirror)[0][0].count("Question:") == 3
    assert shots.metadata["version"] == 1.0


def test_the_last_wording_counts(mirror: Path) -> None:
    assert asked(apply_variant(PLAIN, ["mc", "bpb"]), mirror) == asked(apply_variant(PLAIN, ["bpb"]), mirror)


def test_variants_keep_the_options_that_they_share(mirror: Path) -> None:
    config = TaskConfig(
        **BASE, doc_to_question="question", style={"name": "mc", "cue_text": "A:", "space_prefixed_labels": True}
    )
    assert asked(apply_variant(config, ["cloze"]), mirror)[0] == ("Question: te0?\nA:", " x")


@pytest.mark.parametrize(
    ("config", "variant", "message"),
    [
        (PLAIN, "clozee", "no variant 'clozee'"),
        (PLAIN, "shot", "no variant 'shot'"),
        (TaskConfig(task="gen", doc_to_text="q", doc_to_target="a"), "mc", "has no choices"),
    ],
)
def test_variants_that_there_are_not(config: TaskConfig, variant: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        apply_variant(config, [variant])


def test_shots_of_any_task() -> None:
    config = apply_variant(TaskConfig(task="gen:8shot", doc_to_text="q", doc_to_target="a"), ["8shot"])
    task = Task.from_config(config)
    assert task.num_fewshot(RequestOptions(num_fewshot=3)) == 8


@pytest.mark.parametrize(
    ("text", "choices", "question", "options"),
    [
        ("Question: Why?\nAnswer:", ["x", "y"], "Why?", ["x", "y"]),
        ("Q: Why?\nA:", ["x", "y"], "Why?", ["x", "y"]),
        ("Frage: Warum?\nAntwort:", ["x", "y"], "Warum?", ["x", "y"]),
        ("Why?\nA. x\nB. y\nAnswer:", ["A", "B"], "Why?", ["x", "y"]),
        ("Why?\n(A) x\n(B) y, or\nnot\nAnswer:", ["A", "B"], "Why?", ["x", "y, or\nnot"]),
        ("Why?\nAnswer:", ["A", "B"], "Why?", ["A", "B"]),
        ("Passage.\nQuestion: Why?\nAnswer:", ["no", "yes"], "Passage.\nQuestion: Why?", ["no", "yes"]),
    ],
)
def test_questions_behind_the_texts_of_tasks(text: str, choices: list[str], question: str, options: list[str]) -> None:
    found = derive_question(text, choices, 1)
    assert (found.text, list(found.choices), found.asks) == (question, options, True)


def test_a_passage_keeps_its_own_question_line(mirror: Path) -> None:
    config = PLAIN.override(doc_to_text="Passage.\nQuestion: {{question}}\nAnswer:")
    assert asked(apply_variant(config, ["mc"]), mirror)[0][0] == "Passage.\nQuestion: te0?\nA. x\nB. y\nAnswer:"


def test_a_sentence_is_continued_not_asked(mirror: Path) -> None:
    config = PLAIN.override(doc_to_text="He said {{question}} to")
    continued = ("He said tr7? to b\n\nHe said te0? to", " x")
    assert asked(apply_variant(config, ["cloze", "1shot"]), mirror)[0] == continued
    assert asked(apply_variant(config, ["mc"]), mirror)[0][0] == "Question: He said te0? to\nA. x\nB. y\nAnswer:"


def test_a_text_that_ends_in_a_question_mark_is_asked_not_continued(mirror: Path) -> None:
    config = PLAIN.override(doc_to_text="He said {{question}}")
    assert asked(apply_variant(config, ["cloze"]), mirror)[0] == ("Question: He said te0?\nAnswer:", " x")


def test_contexts_that_vary_have_no_question(mirror: Path) -> None:
    config = PLAIN.override(doc_to_text="answer", doc_to_target="tail")
    with pytest.raises(DataError, match="doc 0: "):
        asked(apply_variant(config, ["mc"]), mirror)


@pytest.mark.parametrize("target", ["z", 1.5, None, ["a", "b"]])
def test_targets_that_are_no_choice(target: Any) -> None:
    with pytest.raises(DataError, match="expected the index, text or letter"):
        index_of(target, ["a", "b"])


# ---------------------------------------------------------------------- Python tasks

SOURCE = """
from assay.tasks import BPBStyle, MCStyle


class _Base:
    DATASET_PATH = "made/up"
    SAMPLE_SPLIT = "test"
    FEWSHOT_SPLIT = "train"
    SUBJECTS = ["europe", "asia"]
    LANGUAGE = "English"

    def _get_raw_question(self, item): return item["question"]
    def _get_choices(self, item): return item["options"]
    def _get_correct_index(self, item): return item["answer"]


class Capitals(_Base):
    NAME = "Capitals"
    TASK_STYLER = MCStyle()


class One(_Base):
    NAME = "One"
    SUBJECTS = ["no_subject"]
    TASK_STYLER = BPBStyle()
    NUM_FEWSHOT = 1
    HF_REVISION = "abc"
"""


@pytest.fixture
def python_file(tmp_path: Path) -> Path:
    file = tmp_path / "some.py"
    file.write_text(SOURCE)
    return file


def test_classes_are_tasks_and_subjects_a_group(python_file: Path, mirror: Path) -> None:
    found = [made.config for made in read_python_tasks(python_file)]
    names = [each.group if isinstance(each, GroupConfig) else each.task for each in found]
    assert names == ["Capitals_europe", "Capitals_asia", "Capitals", "One"]
    group = found[2]
    assert isinstance(group, GroupConfig)
    assert group.task == ["Capitals_europe", "Capitals_asia"]
    europe = found[0]
    assert isinstance(europe, TaskConfig)
    assert europe.metadata == {"subject": "europe", "task_style": "multiple_choice"}
    assert asked(europe, mirror) == asked(TaskConfig(**BASE, doc_to_question="question", style="mc"), mirror)
    one = found[3]
    assert isinstance(one, TaskConfig)
    assert one.dataset_kwargs == {"revision": "abc"}
    assert asked(one, mirror)[0] == ("Question: tr7?\nAnswer: b\n\nQuestion: te0?\nAnswer:", " y")
    assert asked(apply_variant(europe, ["cloze"]), mirror)[0] == ("Question: te0?\nAnswer:", " x")


def test_python_tasks_by_include_path(python_file: Path, mirror: Path) -> None:
    manager = TaskManager(include_path=[python_file], include_defaults=False)
    loaded = manager.load(["Capitals", "Capitals_europe:cloze"], data_dir=mirror)
    assert set(loaded.tasks) == {"Capitals_europe", "Capitals_asia", "Capitals_europe:cloze"}
    assert loaded.groups["Capitals"].children == ("Capitals_europe", "Capitals_asia")
    assert len(list(loaded.tasks["Capitals_asia"].iter_requests())) == 2


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("x = 1", "no task class"),
        ("import no_such_package_at_all", "needs the package .no_such_package_at_all."),
        ("class A:\n    NAME = 'A'\n    DATASET_PATH = 'd'\n    SAMPLE_SPLIT = 'test'", "has no TASK_STYLER"),
        (SOURCE.replace("TASK_STYLER = MCStyle()", "TASK_STYLER = 'mc'"), "expected a styler"),
    ],
)
def test_files_without_proper_tasks(tmp_path: Path, source: str, message: str) -> None:
    file = tmp_path / "bad.py"
    file.write_text(source)
    with pytest.raises(ConfigError, match=message):
        read_python_tasks(file)


def test_an_index_outside_the_choices_is_an_error_with_the_doc(mirror: Path, tmp_path: Path) -> None:
    file = tmp_path / "wrong.py"
    file.write_text(SOURCE.replace('return item["answer"]', "return 7"))
    with pytest.raises(DataError, match=r"task Capitals_europe, doc 0: .*\b7\b.*\b2 choices"):
        asked(read_python_tasks(file)[0].config, mirror)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answer", "read"),
    [
        (" breathing mask", "breathing mask"),
        ("Answer: B. breathing mask", "breathing mask"),
        ("The answer is **breathing mask**.", "breathing mask"),
        ("B", "breathing mask"),
        ("A. radio", "radio"),
        ("radio", "radio"),  # two choices have this text, and either is it
        ("I cannot tell.", "[invalid]"),
    ],
)
def test_a_free_answer_is_read_whatever_a_chat_model_writes_around_it(answer: str, read: str) -> None:
    doc = {"q": "What helps?", "c": ["radio", "breathing mask", "radio"], "a": 1}
    config = TaskConfig(
        task="t", doc_to_question="q", doc_to_choice="c", doc_to_target="a", style="mc_completion", dataset_path="x"
    )
    [ensemble] = ensembles_of(apply_style(config))
    asked = Instance("generate_until", doc, ("", {}), 0, resps=[answer])
    ensemble.apply([asked])
    assert asked.filtered_resps["none"] == read
