"""PERTURBATION_UNMODIFIABLE_WORDS of seed 004, and the perturbations that it is for."""

from __future__ import annotations

from pathlib import Path

import nltk.corpus
import pytest
from click.testing import CliRunner
from nltk.corpus.reader.wordnet import WordNetCorpusReader
from nltk.corpus.util import LazyCorpusLoader
from tests.seeds.parts import Written, run, write_mirror, write_task
from tests.seeds.tiny_wordnet import write_wordnet

from assay.analyses.compare import compare_runs
from assay.cli.entry import assay as command
from assay.errors import ConfigError, DataError, MissingPackage
from assay.finished import open_run
from assay.tasks import PERTURBATIONS, BaseTask, MCStyle, TaskManager, perturbed_text

LONG = [
    {
        "question": f"Which planet number {n} circles around `the_sun = {n}`?",
        "choices": ["Venus", "Mars", "Saturn"],
        "answer": n % 3,
    }
    for n in range(24)
]
TEXT = "Which planets circle around the sun 12 times?\nA. Venus\n(B) Mars\n```\nfor planet in planets:\n```\n    indented code\nAnswer:"


@pytest.mark.parametrize(
    "name", [name for name in PERTURBATIONS if name not in ("synonyms", "choice_order", "blind", "no_context")]
)
def test_a_perturbation_is_the_same_in_every_run_and_spares_what_it_must(name: str) -> None:
    once = perturbed_text(TEXT, [f"{name}(1.0)"], "doc 1", keep=["Answer"])
    assert once == perturbed_text(TEXT, [f"{name}(1.0)"], "doc 1", keep=["Answer"]) != TEXT
    assert once != perturbed_text(TEXT, [f"{name}(1.0)"], "doc 2", keep=["Answer"])
    for kept in ("12", "A.", "(B)", "```\nfor planet in planets:\n```", "\n    indented code\n", "Answer:"):
        assert kept in once, kept


def test_a_synonym_stands_for_the_usual_meaning_of_a_word_and_spares_grammar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader is nltk's; the dictionary is a tiny one in WordNet's format."""
    write_wordnet(tmp_path / "corpora" / "wordnet")
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    monkeypatch.setattr(nltk.corpus, "wordnet", LazyCorpusLoader("wordnet", WordNetCorpusReader, None))
    text = "Where was the car of the doctor, and which Cars shine in the sun?"
    drawn = {perturbed_text(text, ["synonyms(1.0)"], str(seed)) for seed in range(20)}
    assert drawn == {
        f"Where was the {car} of the physician, and which Cars shine in the sun?" for car in ("auto", "motorcar")
    }
    assert perturbed_text("Car", ["synonyms(1.0)"], "1", keep=["car"]) == "Car"
    assert perturbed_text("Car", ["synonyms(1.0)"], "1") in ("Auto", "Motorcar")


def test_without_wordnet_synonyms_are_refused_before_anything_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = LazyCorpusLoader("no_such_wordnet", WordNetCorpusReader, None)
    monkeypatch.setattr(nltk.corpus, "wordnet", missing)
    choice_task(tmp_path)
    with pytest.raises(MissingPackage, match="synonyms come from WordNet"):
        TaskManager(tmp_path, include_defaults=False).load(["planets:synonyms"])


def test_004_258_unmodifiable_words_stay() -> None:
    for seed in range(20):
        changed = perturbed_text("Question: Which planet?", ["typo(1.0)"], str(seed), keep=["Question"])
        assert changed.startswith("Question: ")
        assert changed != "Question: Which planet?"


def test_004_258_a_python_task_names_its_words_and_its_perturbation(tmp_path: Path) -> None:
    class Planets(BaseTask[str]):
        NAME = "Planets"
        DATASET_PATH = "my/dataset"
        SAMPLE_SPLIT = "test"
        TASK_STYLER = MCStyle()
        PERTURBATION = "swap(1.0)"
        PERTURBATION_UNMODIFIABLE_WORDS = ("planet",)

        def _get_raw_question(self, item):  # type: ignore[no-untyped-def]
            return item["question"]

        def _get_choices(self, item):  # type: ignore[no-untyped-def]
            return item["choices"]

        def _get_correct_index(self, item):  # type: ignore[no-untyped-def]
            return item["answer"]

    found = run(tmp_path, [Planets], Written(lambda prompt, draw: ""), data_dir=write_mirror(tmp_path, LONG))
    assert found.tasks["Planets"].scores
    from assay.tasks import tasks_of

    (task,), _ = tasks_of(Planets, tmp_path / "hub")
    prompt = task.build_all_requests()[0].args[0]
    assert " planet " in prompt
    assert "Question: Which" not in prompt
    assert "A. Venus\nB. Mars\nC. Saturn\nAnswer:" in prompt


def choice_task(folder: Path) -> Path:
    return write_task(
        folder,
        "planets",
        'output_type: multiple_choice\ndoc_to_text: "Question: {{question}}\\nAnswer:"\ndoc_to_choice: choices\n'
        "doc_to_target: answer\n",
        docs=LONG,
    )


def test_a_variant_perturbs_and_yaml_says_the_same(tmp_path: Path) -> None:
    choice_task(tmp_path)
    (tmp_path / "own.yaml").write_text(
        "include: planets.yaml\ntask: own\nperturbation: typo(0.9)\nunmodifiable_words: [planet]\n"
    )
    loaded = TaskManager(tmp_path, include_defaults=False).load(["planets", "planets:typo(0.9)", "own"])
    clean, typos, own = (task.build_all_requests()[0].args[0] for task in loaded.tasks.values())
    assert clean.startswith("Question: Which planet number 0")
    assert typos.startswith("Question: ")
    assert typos != clean
    assert " planet number" not in typos
    assert " planet " in own
    assert "`the_sun = 0`" in typos


def test_the_order_of_choices_changes_and_the_right_one_with_it(tmp_path: Path) -> None:
    choice_task(tmp_path)
    names = ["planets:mc", "planets:mc:choice_order"]
    clean, shuffled = TaskManager(tmp_path, include_defaults=False).load(names).tasks.values()
    moved = 0
    for a, b in zip(clean.build_all_requests()[::3], shuffled.build_all_requests()[::3]):
        options = [line[3:] for line in b.args[0].splitlines() if line[1:2] == "."]
        assert sorted(options) == ["Mars", "Saturn", "Venus"]
        assert options[b.target] == ["Venus", "Mars", "Saturn"][a.target]
        moved += a.args[0] != b.args[0]
    assert moved > 10
    listless = (
        TaskManager(tmp_path, include_defaults=False).load(["planets:choice_order"]).tasks["planets:choice_order"]
    )
    with pytest.raises(DataError, match="doc 0: choice_order: the prompt lists no options"):
        listless.build_all_requests()


def test_unknown_perturbations_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"there is no perturbation 'tipo\(0.1\)'") as error:
        perturbed_text("text", ["tipo(0.1)"], "")
    assert "Did you mean typo?" in str(error.value)
    with pytest.raises(ConfigError, match="between 0 and 1"):
        perturbed_text("text", ["typo(2)"], "")


def test_compare_pairs_a_perturbed_run_with_the_clean_one(tmp_path: Path) -> None:
    write_task(tmp_path, "planets", "metric_list: [{metric: exact_match}]\ndoc_to_target: '{{answer}}'\n", docs=LONG)

    def reads(prompt: str, draw: int) -> str:
        """Knows the answer as long as it can read the word."""
        return str(int(prompt.split("number ")[1].split()[0]) % 3) if "planet number" in prompt else "?"

    model = Written(reads)
    for name, tasks in (("clean", "planets"), ("typos", "planets:typo(0.3)")):
        run(tmp_path, [tasks], model, run_dir=str(tmp_path / name))
    (found,) = compare_runs([open_run(tmp_path / "clean"), open_run(tmp_path / "typos")])
    (row,) = found.rows
    assert row.name == "planets"
    assert row.paired
    assert row.difference.a == 1.0
    assert row.difference.b is not None
    assert row.difference.b < 1.0
    assert row.difference.estimate.high is not None
    assert row.difference.estimate.high < 0
    assert any("typo(0.3) in B" in note for note in row.notes)


def test_sweep_tries_perturbations_beside_the_clean_text(tmp_path: Path) -> None:
    choice_task(tmp_path)
    asked = ["sweep", "--model", "dummy", "--tasks", "planets", "--include_path", str(tmp_path), "--styles", "mc"]
    asked += [
        "--perturb",
        "typo(0.2),case",
        "--run_dir",
        str(tmp_path / "out"),
        "--store",
        str(tmp_path / "s.sqlite"),
        "--json",
    ]
    result = CliRunner().invoke(command, asked)
    assert result.exit_code == 0, result.output
    for wording in ("mc", "mc:typo(0.2)", "mc:case"):
        assert f'"style": "{wording}"' in result.output
