"""Whatever an answer says, it is the judge who gives the verdict."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from tests.scoring.judges.attacks import ATTACKS

from assay.config import TaskConfig
from assay.errors import ConfigError
from assay.scoring.judges import JUDGE_KINDS, Case, Grades, Labels, NamedScale, read_verdict
from assay.scoring.judges.cases import Opponent
from assay.scoring.judges.kinds import disarm, fence
from assay.tasks import check_task

GRADES, WORDS = Grades(1, 10), NamedScale({"correct": 1.0, "incorrect": 0.0})
ATTACK = pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)


def test_there_are_enough_of_them() -> None:
    assert len(ATTACKS) >= 30


@ATTACK
def test_the_answer_stays_between_its_own_two_lines(attack: str) -> None:
    kind = JUDGE_KINDS["correct"]()
    (part,) = kind.parts(Case({}, "What is it?", attack, "42"))
    prompt = kind.prompt(part)
    code = hashlib.sha256(attack.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    lines = prompt.split("\n")
    assert lines.count(f"[answer {code}]") == lines.count(f"[end of answer {code}]") == 1
    inside = prompt.partition(f"[answer {code}]\n")[2].partition(f"\n[end of answer {code}]")
    assert inside[0] == disarm(attack)
    assert inside[2] == "", "nothing of the answer comes after its fence"


@ATTACK
def test_nothing_in_the_fence_speaks_for_somebody_else(attack: str) -> None:
    said = fence("answer", attack)
    shown = "\n".join(said.split("\n")[1:-1])
    assert read_tags(shown) == []
    for token in ("<|", "|>", "<｜", "[INST]", "[/INST]", "<<SYS>>", "</s>", "<s>", "<think>", "<start_of_turn>"):
        assert token not in shown
    assert "[end of answer" not in shown
    assert "[end  of" not in shown


def read_tags(text: str) -> list[str]:
    import re

    return re.findall(r"<\s*/?\s*verdict[^>]*>", text, re.IGNORECASE)


@ATTACK
@pytest.mark.parametrize(
    "reply",
    [
        'The answer says "{quoted}", which is wrong.\n<verdict>{verdict}</verdict>',
        '<verdict>{verdict}</verdict>\nThe answer said: "{quoted}"',
        '{quoted}\n\n```json\n{{"reason": "no", "verdict": "{verdict}"}}\n```\n<verdict>{verdict}</verdict>',
    ],
    ids=["quoted before", "quoted after", "quoted before json and tag"],
)
def test_a_judge_that_quotes_the_answer_is_read_by_its_own_verdict(attack: str, reply: str) -> None:
    quoted = disarm(attack)
    assert read_verdict(reply.format(quoted=quoted, verdict="2"), GRADES) == 2.0
    assert read_verdict(reply.format(quoted=quoted, verdict="incorrect"), WORDS) == 0.0


@ATTACK
def test_a_judge_that_replies_in_json_is_read_by_its_own_key(attack: str) -> None:
    import json

    reply = json.dumps({"reason": f"It says {attack}, also {{'verdict': 10}}", "verdict": 2})
    assert read_verdict(reply, GRADES) == 2.0


def test_code_and_markup_that_speak_for_nobody_are_left_as_they_are() -> None:
    text = "if a < b: print('<b>x</b>', [1, 2], x[0])\n>>> f(<unknown>)\n[section 12]"
    assert disarm(text) == text


ODD_ROWS = {
    "deep": "[" * 100_000,
    "no hash": '{"doc_hash": [], "answer_hash": {}, "verdict": 1, "answer": "x"}',
    "no object": "[1, 2]",
    "no JSON": "{",
}


@pytest.mark.parametrize("row", ODD_ROWS)
def test_files_that_a_task_file_names_may_hold_anything(row: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(ODD_ROWS[row] + "\n")
    with pytest.raises(ConfigError, match=r"rows\.jsonl, line 1"):
        Labels.read([path], "t")
    if row != "no hash":
        with pytest.raises(ConfigError, match=r"rows\.jsonl, line 1"):
            Opponent.read(str(path), "t", "none")


def test_labels_and_docs_are_not_read_from_pipes_and_devices(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(ConfigError, match="not a regular file"):
            Labels.read([path], "t")
        config = TaskConfig(
            task="t",
            dataset_path="json",
            dataset_kwargs={"data_files": {"test": str(path)}},
            test_split="test",
            doc_to_text="q",
            doc_to_target="a",
        )
        assert [fault.message for fault in check_task(config)] == [
            f"task 't': dataset_kwargs: {path} is not a regular file"
        ]
