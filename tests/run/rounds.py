"""A task of two turns, a task whose scorer asks a judge, and the judge, as files."""

from __future__ import annotations

from pathlib import Path

from tests.run.support import write_benchmark

TALK = """
task: talk
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/test.jsonl}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{question}}}} ="
doc_to_target: "{{{{answer}}}}"
turns:
  - "You said {{{{answers[-1]}}}}. Are you sure?"
generation_kwargs: {{until: ["\\n"]}}
metric_list: [exact_match]
"""

JUDGED = """
task: judged
class: !function judged.Judged
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/test.jsonl}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{question}}}} ="
doc_to_target: "{{{{answer}}}}"
"""

SCORER = '''
from assay.instance import Instance
from assay.results import MetricKey
from assay.scoring import Scorer
from assay.stats import Aggregation
from assay.metrics import AGGREGATIONS
from assay.tasks import GenerateTask


class AsksTwice(Scorer):
    """Asks a judge whether the answer is even, and where the judge says yes, whether it is sure."""

    roles = ("judge",)

    def next_requests(self, instances_by_doc, task_config):
        asked = []
        for instances in instances_by_doc.values():
            first = instances[0]
            said = [question.resps[0] for question in first.questions if question.failure is None]
            if not first.questions:
                asked.append(self.ask(first, f"Is {first.resps[0]} even?"))
            elif len(first.questions) == 1 and said == ["yes"]:
                asked.append(self.ask(first, f"Is {first.resps[0]} really even?"))
        return asked

    def ask(self, about, text):
        question = Instance(
            "generate_until", about.doc, (text, {"until": []}), 0, about.doc_id, about.task_name, role="judge"
        )
        about.questions.append(question)
        return question

    def score_filter(self, context, result):
        key = MetricKey("even", context.filter_name)
        result.declare(key, AGGREGATIONS["mean"], True)
        for doc_id, instances in context.instances.items():
            last = instances[0].questions[-1]
            if last.failure is not None:
                result.flag(doc_id, "unjudged")
            else:
                result.add(key, doc_id, float(last.resps[0] == "yes"))


class Judged(GenerateTask):
    def _get_default_scorer(self):
        return AsksTwice()
'''

JUDGE = """
from assay.instance import Response
from assay.models import LM


class Judge(LM):
    def __init__(self, log, fail=""):
        self.log, self.fail = log, fail

    def stream(self, request_type, instances, draws, stop=None):
        for position, instance in enumerate(instances):
            with open(self.log, "a") as file:
                file.write(instance.arguments[0] + "\\n")
            if self.fail and self.fail in instance.arguments[0]:
                yield position, Response(None, failure="the judge is out")
            else:
                digit = int(instance.arguments[0].split()[1])
                yield position, Response("no" if digit % 2 else "yes", "stop")

    def loglikelihood(self, requests):
        raise NotImplementedError

    loglikelihood_rolling = generate_until = loglikelihood

    def fingerprint(self):
        return "judge" + self.fail
"""


def write_rounds(folder: Path) -> None:
    """Tasks `talk` and `judged`, and `judge.py:Judge`, beside the benchmark with its data and model."""
    write_benchmark(folder)
    (folder / "talk.yaml").write_text(TALK.format(folder=folder))
    (folder / "judged.yaml").write_text(JUDGED.format(folder=folder))
    (folder / "judged.py").write_text(SCORER)
    (folder / "judge.py").write_text(JUDGE)
