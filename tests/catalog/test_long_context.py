"""Tasks whose prompts are made to a length: needles in haystacks, RULER's variables, words and documents."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.parity.ruler_inputs import squad_file, write_tokenizer
from transformers import AutoTokenizer

from assay.catalog.long_context import making
from assay.errors import AssayError, ConfigError, DataError, MissingPackage
from assay.models import load_model
from assay.models.hf import HFLM
from assay.tasks import RequestOptions, TaskManager


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tokenizer(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def docs_of(name: str, **metadata: Any) -> list[dict[str, Any]]:
    return list(TaskManager(metadata=metadata).load([name]).tasks[name].eval_docs)


def test_a_needle_stands_at_every_depth_of_one_haystack(tokenizer: Path) -> None:
    docs = docs_of("needle_in_a_haystack", tokenizer=str(tokenizer), max_seq_lengths=[512, 1024], depths=5, needles=2)
    assert Counter((doc["max_length"], doc["depth"]) for doc in docs) == {
        (length, depth): 2 for length in (512, 1024) for depth in (0, 25, 50, 75, 100)
    }
    for length in (512, 1024):
        haystacks = set()
        for doc in (doc for doc in docs if doc["max_length"] == length):
            city, (number,) = doc["gen_prefix"].split()[-2], doc["outputs"]
            needle = f" The magic number of {city} is {number}."
            assert doc["input"].count(needle.strip()) == 1
            text = doc["input"].partition("\n\n")[2].rpartition("\n\n")[0]
            haystacks.add(text.replace(needle.strip(), "").replace("  ", " ").strip())
            place = text.index(needle.strip()) / (len(text) - len(needle))
            assert abs(place - doc["depth"] / 100) < 0.1
        assert len(haystacks) == 1


def test_prompts_fill_their_length_by_the_named_tokenizer(tokenizer: Path) -> None:
    encode = AutoTokenizer.from_pretrained(str(tokenizer))
    for name, given in {"needle_in_a_haystack": {}, "ruler_vt": {"docs_per_length": 3}}.items():
        for doc in docs_of(name, tokenizer=str(tokenizer), max_seq_lengths=2048, **given):
            tokens = len(encode(doc["input"])["input_ids"])
            assert 0.6 * 2048 < tokens < 2048, name


def test_a_chain_of_variables_can_be_followed_to_its_value(tokenizer: Path) -> None:
    for doc in docs_of("ruler_vt", tokenizer=str(tokenizer), max_seq_lengths=2048, docs_per_length=5):
        own = doc["input"].rpartition("Memorize and track")[2]
        value = own.partition("assigned the value ")[2].partition(" ")[0]
        assert f"VAR {doc['outputs'][0]} = {value}" in own
        assert all(f"VAR {b} = VAR {a} " in own for a, b in zip(doc["outputs"], doc["outputs"][1:]))
        shown = doc["input"].partition("they are: ")[2].split()[:5]
        assert not set(shown) & set(doc["outputs"])


def test_the_three_coded_words_are_the_most_frequent(tokenizer: Path) -> None:
    for doc in docs_of("ruler_fwe", tokenizer=str(tokenizer), max_seq_lengths=1024, docs_per_length=3):
        coded = doc["input"].partition("coded words. ")[2].partition("\nQuestion")[0]
        most = [word for word, _ in Counter(coded.split()).most_common(4)]
        assert most == ["...", *doc["outputs"]]


def test_questions_stand_among_documents_that_hold_their_answers(tokenizer: Path, tmp_path: Path) -> None:
    file = tmp_path / "squad.json"
    file.write_text(json.dumps(squad_file()))
    docs = docs_of(
        "ruler_qa_squad", tokenizer=str(tokenizer), max_seq_lengths=2048, docs_per_length=20, squad=str(file)
    )
    asked = [
        (question["question"], paragraph["context"])
        for article in squad_file()["data"]  # type: ignore[attr-defined]
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
        if not question["is_impossible"]
    ]
    assert len(docs) == 20
    for doc, (question, context) in zip(docs, asked, strict=False):
        assert doc["input"].endswith(f"Question: {question}")
        assert f":\n{context}" in doc["input"]
        assert "Document 2:" in doc["input"]


@pytest.mark.parametrize(
    ("name", "given", "error", "says"),
    [
        ("needle_in_a_haystack", {"tokenizer": ""}, ConfigError, "tokenizer="),
        ("ruler_vt", {"max_seq_lengths": "long"}, ConfigError, "max_seq_lengths"),
        ("ruler_vt", {"max_seq_lengths": 64}, DataError, "max_seq_lengths"),
        ("ruler_qa_squad", {}, DataError, "squad=FILE"),
        ("ruler_qa_hotpot", {"hotpot": "absent.json"}, DataError, "hotpot=FILE"),
    ],
)
def test_what_is_missing_is_named_before_anything_is_sent(
    name: str, given: dict[str, Any], error: type[AssayError], says: str, tokenizer: Path
) -> None:
    with pytest.raises(error) as raised:
        docs_of(name, **{"tokenizer": str(tokenizer), **given})
    assert says in f"{raised.value} {raised.value.hint}"


def test_essays_and_words_are_the_users_own(tokenizer: Path, tmp_path: Path) -> None:
    """Where words or the splitter of sentences are not installed, their packages are named first."""
    with pytest.raises((DataError, MissingPackage)) as raised:
        docs_of("niah_single_2", tokenizer=str(tokenizer))
    assert any(word in raised.value.hint or "" for word in ("essays=FILE", "nltk"))
    with pytest.raises(DataError, match="cannot be read"):
        making.read_texts(str(tmp_path / "absent.txt"), "essays", "essays")
    (tmp_path / "one.txt").write_text("A text.")
    assert making.read_texts(str(tmp_path / "one.txt"), "essays", "essays") == ["A text."]


@pytest.mark.parametrize("kind", ["a pipe", "a device", "too large", "nested"])
@pytest.mark.parametrize(
    ("name", "key", "ending"),
    [
        ("ruler_qa_squad", "squad", "json"),
        ("needle_in_a_haystack", "essays", "txt"),
        ("needle_in_a_haystack", "essays", "jsonl"),
    ],
)
def test_what_is_no_plain_file_of_a_reasonable_size_is_refused(
    name: str, key: str, ending: str, kind: str, tokenizer: Path, tmp_path: Path
) -> None:
    path = tmp_path / f"file.{ending}"
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a device":
        path.symlink_to("/dev/zero")
    elif kind == "nested":
        path = tmp_path / "file.json"
        path.write_text("[" * 100_000)
    else:
        with path.open("wb") as file:
            file.truncate(8 << 30 if ending != "jsonl" else 0)
    with pytest.raises(AssayError):
        docs_of(name, tokenizer=str(tokenizer), **{key: str(path)})


def test_docs_are_made_once_for_a_tokenizers_content(
    tokenizer: Path, tmp_path_factory: pytest.TempPathFactory, home: Path
) -> None:
    given = {"max_seq_lengths": 512, "docs_per_length": 2}
    first = docs_of("ruler_fwe", tokenizer=str(tokenizer), **given)
    (made,) = (home / "generated").iterdir()
    written = made.stat().st_mtime_ns
    copy = tmp_path_factory.mktemp("copy")
    for file in tokenizer.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    assert docs_of("ruler_fwe", tokenizer=str(copy), **given) == first
    assert [each.stat().st_mtime_ns for each in (home / "generated").iterdir()] == [written]
    docs_of("ruler_fwe", tokenizer=str(tokenizer), **{**given, "data_seed": 1})
    assert len([*(home / "generated").iterdir()]) == 2


def test_the_share_of_expected_words_is_the_score() -> None:
    assert making.contained({"outputs": ["AB", "cd"]}, ["It is ab."]) == {"string_match": 0.5}
    assert making.any_contained({"outputs": ["AB", "cd"]}, ["It is ab."]) == {"string_match": 1.0}


def test_needles_of_one_haystack_share_what_stands_before_them(tokenizer: Path, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(7)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = LlamaConfig(vocab_size=3008, **sizes, max_position_embeddings=2048, bos_token_id=0, eos_token_id=1)
    lm = load_model(HFLM(LlamaForCausalLM(config).eval(), tokenizer=AutoTokenizer.from_pretrained(str(tokenizer))))
    given = {"tokenizer": str(tokenizer), "max_seq_lengths": 1024, "depths": 5, "needles": 2}
    task = TaskManager(metadata=given).load(["needle_in_a_haystack"]).tasks["needle_in_a_haystack"]
    asked = [doc.instances[0] for doc in task.iter_requests(RequestOptions(gen_kwargs={"max_gen_toks": 2}))]
    lm.generate_until(asked)
    distinct = lm.count_tokens("generate_until", asked)
    assert lm.usage is not None
    assert distinct is not None
    assert lm.usage.prompt_tokens > 1.5 * distinct
    assert lm.usage.computed_tokens <= 1.05 * distinct
