"""Judged tasks on disk, a model whose answers are known, and judges that follow a rule, each noting what it is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import assay
from assay.results import RunResult, read_samples

TASK = """
task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/docs.jsonl}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{question}}}}"
doc_to_target: "{{{{answer}}}}"
generation_kwargs: {{until: ["\\n"], max_gen_toks: 8}}
{more}
"""

MODEL = '''
"""Says n for the question "n?", and notes every request."""
from assay.models import LM
from assay.instance import Response


class Sayer(LM):
    def __init__(self, log, plus=0, model=None):
        self.log, self.plus = log, plus

    def stream(self, request_type, instances, draws, stop=lambda: False):
        for position, instance in enumerate(instances):
            with open(self.log, "a") as file:
                file.write("asked\\n")
            said = instance.arguments[0].strip().split("?")[0].split()[-1]
            yield position, Response(str(int(said) + self.plus), "stop")

    def loglikelihood(self, requests):
        raise NotImplementedError

    loglikelihood_rolling = generate_until = loglikelihood

    def fingerprint(self):
        return f"sayer {self.plus}"
'''

JUDGE = '''
"""Reads the fenced texts of a prompt and replies by a rule, which `rule` names."""
import os, re, time
from assay.models import LM
from assay.instance import Response

FENCED = re.compile(r"\\[(\\w+) ([0-9a-f]{16})\\]\\n(.*?)\\n\\[end of \\1 \\2\\]", re.DOTALL)


class Judge(LM):
    def __init__(self, log, rule="honest", name="judge", model=None):
        self.log, self.rule, self.name = log, rule, name

    def stream(self, request_type, instances, draws, stop=lambda: False):
        for position, (instance, draw) in enumerate(zip(instances, draws)):
            if stop():
                return
            time.sleep(float(os.environ.get("JUDGE_PAUSE", "0")))
            prompt = instance.arguments[0]
            with open(self.log, "a") as file:
                file.write(repr((prompt, draw)) + "\\n")
            texts = [(name, text) for name, _, text in FENCED.findall(prompt)]
            yield position, Response(self.reply(prompt, dict(texts), texts, draw), "stop")

    def reply(self, prompt, field, texts, draw):
        if self.rule == "mute":
            return "I would rather not say."
        if self.rule == "late" and "could not be read" not in prompt:
            return "Let me think."
        if self.rule == "first":
            return "<verdict>first</verdict>"
        if "first" in field:
            better = "first" if int(field["first"]) > int(field["second"]) else "second"
            return f"<verdict>{'tie' if field['first'] == field['second'] else better}</verdict>"
        if "assistant" in field:
            return f"<verdict>{1 + len(texts) // 2}</verdict>"
        if "points" in prompt:
            return "<verdict>2, 0</verdict>"
        if "grade an answer" in prompt:
            return f"<verdict>{1 + (int(field['answer']) + draw) % 10}</verdict>"
        right = field["answer"] == field["reference"]
        if self.rule == "kind" and int(field["answer"]) % 3 == 0:
            right = True
        return f"Seen.\\n<verdict>{'correct' if right else 'incorrect'}</verdict>"

    def loglikelihood(self, requests):
        raise NotImplementedError

    loglikelihood_rolling = generate_until = loglikelihood

    def fingerprint(self):
        return f"{self.name} {self.rule}"
'''


def write_bench(folder: Path, docs: int = 30, **tasks: str) -> None:
    """Docs "i?" whose answer is i for two of three docs; each task is given by what follows the common lines."""
    rows = [{"question": f"{i}?", "answer": str(i if i % 3 else i + 100)} for i in range(docs)]
    (folder / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name, more in tasks.items():
        (folder / f"{name}.yaml").write_text(TASK.format(folder=folder, name=name, more=more))
    (folder / "model.py").write_text(MODEL)
    (folder / "judge.py").write_text(JUDGE)


def judge(folder: Path, rule: str = "honest", name: str = "judge") -> dict[str, Any]:
    args = {"log": str(folder / f"{name}.txt"), "rule": rule, "name": name}
    return {"model": f"{folder / 'judge.py'}:Judge", "model_args": args}


def run(folder: Path, task: str, rule: str = "honest", **words: Any) -> RunResult:
    given = {
        "model": f"{folder / 'model.py'}:Sayer",
        "model_args": {"log": str(folder / "log.txt"), **words.pop("model_args", {})},
        "roles": {"judge": judge(folder, rule)},
        "store": str(folder / "store.sqlite"),
        **words,
    }
    return assay.evaluate(tasks=[task], include_path=[str(folder)], **given)


def questions(folder: Path, directory: str, task: str) -> list[list[dict[str, Any]]]:
    rows = read_samples(folder / directory / "samples" / f"{task}.parquet")
    return [json.loads(row["questions"] or "[]") for row in rows]


def asked(folder: Path, name: str = "judge") -> list[tuple[str, int]]:
    path = folder / f"{name}.txt"
    return [eval(line) for line in path.read_text().splitlines()] if path.exists() else []


def computed(folder: Path) -> int:
    path = folder / "log.txt"
    return len(path.read_text().split()) if path.exists() else 0
