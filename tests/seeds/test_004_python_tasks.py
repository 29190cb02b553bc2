"""Seed 004: Python tasks and their stylers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.seeds.parts import Written, run, write_mirror

import assay
from assay.errors import ConfigError, DataError
from assay.tasks import (
    AccuracyLoglikelihood,
    AccuracyNormLoglikelihood,
    BaseMetric,
    BaseTask,
    BitsPerByteLoglikelihood,
    BPBStyle,
    ClozeStyle,
    Language,
    MCStyle,
    ResponseType,
    TaskManager,
    TaskStyle,
    TaskStyler,
    add_language,
    answer_key_to_index,
    format_mc_prompt,
    tasks_of,
)
from assay.tasks.python_tasks import read_python_tasks

DOCS = [
    {"question": "Capital of France?", "choices": ["Berlin", "Paris", "Rome"], "answer_idx": 1, "id": n}
    for n in range(3)
]
MODEL = Written(lambda prompt, draw: " Paris")


class MyTask(BaseTask[str]):
    NAME = "MyTask"
    DATASET_PATH = "my/dataset"
    SAMPLE_SPLIT = "test"
    FEWSHOT_SPLIT = "train"
    SUBJECTS = ("my_subject",)
    PERTURBATION_UNMODIFIABLE_WORDS = ("Question",)
    TASK_STYLER: Any = ClozeStyle(question_prefix="Question: ", cue_text="Answer:")

    def _get_raw_question(self, item: Any) -> str:
        return str(item["question"])

    def _get_choices(self, item: Any) -> list[str]:
        return list(item["choices"])

    def _get_correct_index(self, item: Any) -> int:
        return int(item["answer_idx"])


FILE = """
from assay.tasks import BaseTask, BPBStyle, ClozeStyle, MCStyle


class _ARC_Base(BaseTask[str]):
    DATASET_PATH = "my/dataset"
    SAMPLE_SPLIT = "test"
    FEWSHOT_SPLIT = "train"
    SUBJECTS = ["ARC-Easy", "ARC-Challenge"]

    def _get_raw_question(self, item): return item["question"]
    def _get_choices(self, item): return item["choices"]
    def _get_correct_index(self, item): return item["answer_idx"]


class ARC(_ARC_Base):
    NAME = "ARC"
    TASK_STYLER = ClozeStyle()


class ARC_MC(_ARC_Base):
    NAME = "ARC_MC"
    TASK_STYLER = MCStyle(space_prefixed_labels=True)


class ARC_BPB(_ARC_Base):
    NAME = "ARC_BPB"
    TASK_STYLER = BPBStyle()
"""


def first_prompt(cls: Any, folder: Path, shots: int = 0) -> str:
    from assay.tasks import RequestOptions

    tasks, _ = tasks_of(cls, write_mirror(folder, DOCS, *(getattr(cls, "SUBJECTS", None) or ("default",))))
    return str(tasks[0].build_all_requests(RequestOptions(num_fewshot=shots))[0].args[0])


def test_004_224_and_250_the_quick_start_runs(tmp_path: Path) -> None:
    found = run(tmp_path, [MyTask], MODEL, data_dir=write_mirror(tmp_path, DOCS, "my_subject"), num_fewshot=1)
    assert list(found.tasks) == ["MyTask_my_subject"]
    assert found.groups["MyTask"].children == ("MyTask_my_subject",)
    assert {key.metric for key in found.groups["MyTask"].scores} == {"acc", "acc_norm", "gold_bits_per_byte"}
    assert found["MyTask"]["acc"].value == found["MyTask_my_subject"]["acc"].value


def test_004_251_a_family_of_three_runs_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "arc.py").write_text(FILE)
    hub = write_mirror(tmp_path, DOCS, "ARC-Easy", "ARC-Challenge")
    found = assay.evaluate(
        model=MODEL,
        tasks=["ARC", "ARC_MC", "ARC_BPB"],
        include_path=str(tmp_path / "arc.py"),
        store=str(tmp_path / "s.sqlite"),
        data_dir=hub,
    )
    assert [len(found.groups[name].children) for name in ("ARC", "ARC_MC", "ARC_BPB")] == [2, 2, 2]
    assert {key.metric for key in found.groups["ARC_BPB"].scores} == {"gold_bits_per_byte"}
    assert found["ARC"]["acc"].value is not None


def test_004_225_235_236_enums() -> None:
    assert Language.DEU.value == "German"
    assert MCStyle.for_language(Language.DEU).get_cue_text() == "Antwort:"
    assert MCStyle.task_style is TaskStyle.MULTIPLE_CHOICE
    assert MCStyle().task_style.value == "multiple_choice"  # type: ignore[union-attr]
    assert ClozeStyle.response_type is ResponseType.LOGLIKELIHOODS
    assert BPBStyle().get_extra_metadata() == {"task_style": TaskStyle.BPB.value}


def test_004_237_metrics_by_class() -> None:
    assert MCStyle.metrics == [AccuracyLoglikelihood, AccuracyNormLoglikelihood, BitsPerByteLoglikelihood]
    assert all(issubclass(metric, BaseMetric) for metric in MCStyle.metrics if isinstance(metric, type))

    class Listed(MyTask):
        NAME = "Listed"
        METRICS = (AccuracyLoglikelihood, "acc_bytes")

    (task,), _ = tasks_of(Listed)
    assert [metric.name for metric in task.config.metric_list or []] == ["acc", "acc_bytes"]


def test_004_241_and_242_languages() -> None:
    """An unknown language is an error: its questions would be asked in English without a word. Others can be added."""
    with pytest.raises(ConfigError, match="no words are known for the language 'Klingon'"):
        MCStyle.for_language("Klingon")
    add_language("Latin", "la", "lat", question="Quaestio: ", answer="Responsum:")
    assert ClozeStyle.for_language("la").get_instruction_text("Quid?", []) == "Quaestio: Quid?\n"


def test_004_244_a_styler_may_set_its_attributes_itself(tmp_path: Path) -> None:
    class Own(TaskStyler):
        response_type = ResponseType.LOGLIKELIHOODS
        metrics = (AccuracyLoglikelihood,)
        task_style = TaskStyle.MULTIPLE_CHOICE

        def __init__(
            self, question_prefix: str = "Q: ", cue_text: str = "A:", space_prefixed_labels: bool = False
        ) -> None:
            self.question_prefix = question_prefix
            self._cue_text = cue_text
            self.space_prefixed_labels = space_prefixed_labels

        def get_cue_text(self) -> str:
            return self._cue_text

        def get_instruction_text(self, raw_question: str, choices: Any) -> str:
            return format_mc_prompt(self.get_question_text(raw_question), choices)

        def get_ground_truth(self, choices: Any, correct_index: int) -> str:
            return f" {'ABC'[correct_index]}"

        def get_possible_completions(self, choices: Any, correct_index: int | None = None) -> list[str]:
            return [f" {label}" for label in "ABC"[: len(choices)]]

    class Mine(MyTask):
        NAME = "Mine"
        TASK_STYLER = Own(question_prefix="Frage: ")

    assert first_prompt(Mine, tmp_path) == "Frage: Capital of France?\nA. Berlin\nB. Paris\nC. Rome\nA:"
    assert Own.for_language("de").question_prefix == "Frage: "


def test_004_247_a_key_of_zero_is_an_error() -> None:
    """The seed gives -1, which Python takes for the last choice."""
    assert [answer_key_to_index(key) for key in ("A", "b", "1")] == [0, 1, 0]
    with pytest.raises(DataError):
        answer_key_to_index("0")


def test_004_254_an_override_beside_a_styler_counts(tmp_path: Path) -> None:
    class Own(MyTask):
        NAME = "Own"

        def _get_instruction_text(self, item: Any) -> str:
            return f"Please answer. {item['question']}\n"

    assert first_prompt(Own, tmp_path) == "Please answer. Capital of France?\nAnswer:"


def test_004_254_every_wording_hook_counts_in_shots_too(tmp_path: Path) -> None:
    class Own(MyTask):
        NAME = "Own"

        def _get_cue_text(self, item: Any) -> str:
            return "Antwort:"

    prompt = first_prompt(Own, tmp_path, shots=1)
    assert prompt == "Question: Capital of France?\nAntwort: Paris\n\nQuestion: Capital of France?\nAntwort:"


class Plain:
    """No styler, and derived from nothing."""

    NAME = "Plain"
    DATASET_PATH = "my/dataset"
    SAMPLE_SPLIT = "test"
    FEWSHOT_SPLIT = "train"

    def _get_instruction_text(self, item: Any) -> str:
        return f"{item['question']}\n"

    def _get_ground_truth(self, item: Any) -> str:
        return f" {item['choices'][item['answer_idx']]}"

    def _get_possible_completions(self, item: Any) -> list[str]:
        return [f" {choice}" for choice in item["choices"]]

    def _get_cue_text(self, item: Any) -> str:
        return "It is"


def test_004_255_a_styler_is_optional(tmp_path: Path) -> None:
    hub = write_mirror(tmp_path, DOCS)
    found = run(tmp_path, [Plain], MODEL, data_dir=hub)
    assert found["Plain"]["acc"].value is not None
    (task,), groups = tasks_of(Plain, hub)
    requests = task.build_all_requests()
    assert groups == []
    assert requests[0].args == ("Capital of France?\nIt is", " Berlin")
    assert requests[0].target == 1


def test_004_255_without_completions_the_model_writes(tmp_path: Path) -> None:
    class Writes(BaseTask[str]):
        NAME = "Writes"
        DATASET_PATH = "my/dataset"
        SAMPLE_SPLIT = "test"

        def _get_instruction_text(self, item: Any) -> str:
            return f"{item['question']}\n"

        def _get_ground_truth(self, item: Any) -> str:
            return str(item["choices"][item["answer_idx"]])

    found = run(tmp_path, [Writes], MODEL, data_dir=write_mirror(tmp_path, DOCS))
    assert found["Writes"]["exact_match"].value == 1.0


def test_004_255_a_class_that_says_too_little_is_told_what_lacks(tmp_path: Path) -> None:
    path = tmp_path / "t.py"
    path.write_text("class A:\n    NAME = 'A'\n    DATASET_PATH = 'd'\n    SAMPLE_SPLIT = 'test'\n")
    with pytest.raises(ConfigError, match="has no TASK_STYLER and no _get_instruction_text and no _get_ground_truth"):
        read_python_tasks(path)


def test_004_261_names_are_found_by_the_manager(tmp_path: Path) -> None:
    """`EvaluationGenerator` is `assay.evaluate`; a file of classes is one of its include paths."""
    (tmp_path / "arc.py").write_text(FILE)
    manager = TaskManager(tmp_path / "arc.py", include_defaults=False)
    assert set(manager.load(["ARC_MC"]).tasks) == {"ARC_MC_ARC-Easy", "ARC_MC_ARC-Challenge"}
