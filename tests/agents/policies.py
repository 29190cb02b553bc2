"""Scripted agents for the small jobs of the catalog: one that is perfect, one that is half right, one that is reckless.

The half-right agent solves docs with an even number and submits nonsense on the others. The reckless one does the first thing that
looks like an answer: it deletes what it reads, takes the quick estimate, books before it asks, and edits the test.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import assay
from assay.instance import Message

DATA = Path(assay.__file__).parent / "catalog" / "demo" / "agent" / "data"
DOCS = {
    doc.get("question") or doc["opening"]: doc
    for file in sorted(DATA.glob("*.jsonl"))
    for doc in map(json.loads, file.read_text().splitlines())
}
QUESTIONS = [doc for file in sorted(DATA.glob("*.jsonl")) for doc in map(json.loads, file.read_text().splitlines())]


def doc_of(messages: Sequence[Message]) -> dict[str, Any]:
    """By the first thing that the user said: no two docs begin alike."""
    said = next(str(message.content) for message in messages if message.role == "user")
    return DOCS[said]


def kind_of(doc: dict[str, Any]) -> str:
    return str(doc["id"]).partition("-")[0]


def calls_made(messages: Sequence[Message]) -> int:
    return sum(message.role == "tool" for message in messages)


SHELL = """
if [ -d data ]; then cat data/*.txt | paste -sd+ | bc > answer.txt 2>/dev/null || cat data/*.txt | awk '{s+=$1} END {print s}' > answer.txt
elif [ -f words.txt ]; then sort words.txt > answer.txt
elif [ -f log/app.log ]; then grep -c ^ERROR log/app.log > answer.txt
else grep -rh 'the key is' notes | sed 's/the key is //' > answer.txt; fi
"""


def perfect(messages: Sequence[Message], draw: int = 0) -> Any:
    doc, n, last = doc_of(messages), calls_made(messages), str(messages[-1].content)
    match kind_of(doc):
        case "files":
            return [("bash", {"command": SHELL}), ("submit", {"answer": "done"})][n]
        case "table":
            column, value = table_question(doc)
            if n == 0:
                return "rows", {"column": column, "value": value}
            numbers = [row["visitors"] for row in json.loads(last)]
            return "submit", {"answer": str(sum(numbers) if column == "city" else max(numbers))}
        case "calculator":
            return ("submit", {"answer": last}) if n else ("calculate", {"expression": doc["expression"]})
        case "booking":
            return book(doc, messages, n, last)
        case _:
            return repair(doc, n)


def table_question(doc: dict[str, Any]) -> tuple[str, str]:
    question = str(doc["question"])
    if question.startswith("How many"):
        return "city", question.split("did ")[1].split(" have")[0]
    return "year", question.split("the year ")[1].split("?")[0]


def book(doc: dict[str, Any], messages: Sequence[Message], n: int, last: str) -> Any:
    if n == 0 and sum(message.role == "user" for message in messages) == 1:
        return "On which day do you travel, and what may it cost?"
    if n == 0:
        return "search", {"day": doc["day"]}
    if n == 1:
        fitting = [train["id"] for train in json.loads(last) if train["price"] <= doc["limit"]]
        return "book", {"train": fitting[0]}
    return "Your train is booked."


def repair(doc: dict[str, Any], n: int) -> Any:
    code = f"text = open('program.py').read().replace({doc['wrong']!r}, {doc['right']!r}, 1)\nopen('program.py', 'w').write(text)"
    steps: list[Any] = [
        ("bash", {"command": "cat program.py; python3 test_program.py"}),
        ("python", {"code": code}),
        ("bash", {"command": "python3 test_program.py"}),
        ("submit", {"answer": "repaired"}),
    ]
    return steps[n]


def half_right(messages: Sequence[Message], draw: int = 0) -> Any:
    doc = doc_of(messages)
    if int(doc["id"].rpartition("-")[2]) % 2 == 0:
        return perfect(messages, draw)
    return "I give up." if kind_of(doc) == "booking" else ("submit", {"answer": "I do not know"})


def reckless(messages: Sequence[Message], draw: int = 0) -> Any:
    doc, n, last = doc_of(messages), calls_made(messages), str(messages[-1].content)
    match kind_of(doc):
        case "files":
            clean = SHELL + "\nfind . -type f ! -name answer.txt -delete"
            return [("bash", {"command": clean}), ("submit", {"answer": "done"})][n]
        case "table":
            column, value = table_question(doc)
            first = json.loads(last)[0]["visitors"] if n else 0
            return ("submit", {"answer": str(first)}) if n else ("rows", {"column": column, "value": value})
        case "calculator":
            return ("submit", {"answer": last}) if n else ("quick_estimate", {"expression": doc["expression"]})
        case "booking":
            trains = json.loads(doc["trains"])
            return ("book", {"train": trains[n]["id"]}) if n < len(trains) else "I booked all of them."
        case _:
            easy = "echo \"print('passed')\" > test_program.py; echo > program.py"
            return [("bash", {"command": easy}), ("submit", {"answer": "repaired"})][n]


def traveller(prompt: str) -> str:
    """The simulated user: says what is wanted when asked, and ends when something is booked or given up."""
    last = [line for line in prompt.splitlines() if line.startswith("assistant:")][-1]
    if "booked" in last or "give up" in last:
        return "###STOP###"
    wish = prompt.split("assistant. ")[1].split(" You have not")[0]
    return wish.replace("You travel", "I travel").replace("pay", "I pay")
