"""Random small task files, run and scored a second time by a plain scorer that shares nothing with the package.

Every number that a run shows is the scorer's, every metric that is listed has a row, and what is refused is refused before the
first request.
"""

from __future__ import annotations

import hashlib
import math
import re
import tempfile
import warnings
from pathlib import Path
from typing import Any

import yaml
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from tests.own_files import Told, function, write_task

from assay import evaluate
from assay.errors import AssayError
from assay.results import MetricKey, RunResult

Doc = dict[str, Any]
Task = dict[str, Any]

CODE = """
def text(doc): return "Q " + doc["q"]
def target(doc): return doc["a"]
def gold(doc): return doc["gold"]
def choices(doc): return list(doc["choices"])
def lists(resps, docs): return [[answer.upper() for answer in each] for each in resps]
def equal(predictions, references): return float(predictions[0].strip() == references[0].strip())
def pair(items): return float(items[0] == items[1])
def two(predictions, references): return {"long": float(len(predictions[0])), "short": 1.0}
def nothing(predictions, references): return None
def margin(result): return max(result.lls) - min(result.lls)
def first(result): return result[0]
def total(values): return float(sum(values))
def results(doc, results):
    answer = results[0]
    return {"size": float(len(answer) if isinstance(answer, str) else len(results))}
"""


def digest(*parts: str) -> int:
    return int.from_bytes(hashlib.sha256("\0".join(parts).encode()).digest()[:6], "big")


def log_likelihood(context: str, continuation: str) -> float:
    return -1 - digest(context, continuation) % 9973 / 500


def answer(context: str) -> str:
    said = ["4", " 4", "four", "The answer is 4.", "yes\n", "B", "", "(A)"]
    return said[digest(context) % len(said)]


# ---------------------------------------------------------------------- the files

words = st.sampled_from(["4", "four", "yes", "B", "the sea", "Ünïcode ✓", "a b c", "7"])


@st.composite
def documents(draw: Any) -> list[Doc]:
    count = draw(st.integers(1, 5))
    made = []
    for i in range(count):
        choices = draw(st.lists(words, min_size=2, max_size=4, unique=True))
        gold = draw(st.integers(0, len(choices) - 1))
        made.append({"q": f"{i}: {draw(words)}?", "a": draw(words), "choices": choices, "gold": gold})
    return made


def entry(metric: str, aggregation: str | None = None) -> Any:
    named = function(metric) if metric.startswith("u.") else metric
    return {"metric": named, **({} if aggregation is None else {"aggregation": aggregation})}


METRICS: dict[str, list[Any]] = {
    "multiple_choice": [entry("acc"), entry("acc_norm"), entry("u.margin", "mean"), entry("exact_match")],
    "generate_until": [entry("exact_match"), entry("u.equal"), entry("u.pair"), entry("u.two"), entry("u.nothing")],
    "loglikelihood": [entry("perplexity"), entry("acc"), entry("u.first", "mean")],
    "loglikelihood_rolling": [entry("word_perplexity"), entry("bits_per_byte"), entry("u.first", "mean")],
}
OTHERS = {
    "multiple_choice": [entry("perplexity"), entry("u.equal"), entry("rouge")],
    "generate_until": [entry("u.margin"), entry("brier_score"), entry("u.first")],
    "loglikelihood": [entry("exact_match"), entry("u.equal")],
    "loglikelihood_rolling": [entry("acc"), entry("rouge1")],
}
"""Metrics of other kinds of answers: an error, or a row that says so."""
STEPS: list[Any] = [
    None,
    [],
    [{"function": "take_first"}],
    [{"function": "regex", "regex_pattern": "([A-Z0-9])"}, {"function": "take_first"}],
    [{"function": "lowercase"}, {"function": "remove_whitespace"}, {"function": "take_first"}],
    [{"function": "custom", "filter_fn": function("u.lists")}, {"function": "take_first"}],
    [{"function": "take_first"}, {"function": "lowercase"}],
]


@st.composite
def task_files(draw: Any, name: str = "mine") -> Task:
    kind = draw(st.sampled_from(sorted(METRICS)))
    listed = st.lists(
        st.sampled_from(METRICS[kind]), min_size=1, max_size=3, unique_by=lambda each: str(each["metric"])
    )
    fields: Task = {"output_type": kind, "doc_to_text": draw(st.sampled_from(["q", "Q {{q}}", function("u.text")]))}
    fields["doc_to_target"] = draw(st.sampled_from(["a", "{{a}}", function("u.target")]))
    if kind == "multiple_choice":
        choices = ["choices", "{{choices}}", function("u.choices"), ["yes", "{{a}}"]]
        fields["doc_to_choice"] = draw(st.sampled_from(choices))
        fields["doc_to_target"] = draw(st.sampled_from(["gold", "{{gold}}", function("u.gold")]))
    if kind == "generate_until" and draw(st.booleans()):
        steps = draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=2))
        filters = [{"name": f"f{i}", **({} if each is None else {"filter": each})} for i, each in enumerate(steps)]
        fields["filter_list"] = [
            {**each, "metric_list": draw(listed)} if draw(st.booleans()) else each for each in filters
        ]
    if kind == "generate_until" and draw(st.integers(0, 4)) == 0:
        fields["process_results"] = function("u.results")
        fields["metric_list"] = [entry("size", "mean"), entry("absent", "mean")]
    else:
        fields["metric_list"] = draw(listed)
    if draw(st.booleans()):
        fields["language"] = "en"
    return {**fields, "task": name}


# ---------------------------------------------------------------------- the plain scorer


def rendered(value: Any, doc: Doc, code: dict[str, Any]) -> Any:
    if str(value).startswith("u."):
        return code[str(value)[2:]](doc)
    if value in doc:
        return doc[value]
    template = re.fullmatch(r"(.*?)\{\{(\w+)\}\}", value)
    assert template is not None
    return doc[template[2]] if not template[1] else template[1] + str(doc[template[2]])


def filtered(steps: Any, said: str, own: bool) -> Any:
    """What a filter leaves of one answer: one text, or a list of it where nobody took it out."""
    left: Any = [said]
    for step in steps or []:
        match step["function"]:
            case "take_first":
                left = left[0]
            case "regex":
                found = re.findall("([A-Z0-9])", left[0])
                left = [found[0] if found else "[invalid]"]
            case "lowercase":
                left = [each.lower() for each in left]
            case "remove_whitespace":
                left = [each.strip() for each in left]
            case "custom":
                left = [each.upper() for each in left]
    return left[0] if isinstance(left, list) and (steps is None or own) else left


def values_of(task: Task, docs: list[Doc], code: dict[str, Any]) -> dict[tuple[str, str], list[Any]]:
    """The values of all docs under each metric and filter; None where the metric says nothing."""
    kind, own = task["output_type"], is_own(task)
    filters = task.get("filter_list") or [{"name": "none", "filter": [{"function": "take_first"}]}]
    values: dict[tuple[str, str], list[Any]] = {}
    for each in filters:
        if "process_results" in task:
            left = [filtered(each.get("filter"), answer(rendered(task["doc_to_text"], doc, code)), own) for doc in docs]
            values["size", each["name"]] = [
                float(len(answered) if isinstance(answered, str) else 1) for answered in left
            ]
            listed = [
                str(metric["metric"]).removeprefix("u.") for metric in each.get("metric_list") or task["metric_list"]
            ]
            values |= {(name, each["name"]): [None] for name in listed if name != "size"}
            continue
        for metric in each.get("metric_list") or task["metric_list"]:
            name = str(metric["metric"]).removeprefix("u.")
            for doc in docs:
                for part, value in scored(task, kind, name, each, doc, code, own).items():
                    values.setdefault((part, each["name"]), []).append(value)
    return values


def is_own(task: Task) -> bool:
    return "language" in task or any(each.get("metric_list") for each in task.get("filter_list") or [])


def scored(task: Task, kind: str, name: str, each: Any, doc: Doc, code: dict[str, Any], own: bool) -> dict[str, Any]:
    context = rendered(task["doc_to_text"], doc, code)
    if kind == "loglikelihood":
        ll = log_likelihood(context, rendered(task["doc_to_target"], doc, code))
        return {name: {"perplexity": ll, "acc": 0.0, "first": ll}.get(name)}
    if kind == "loglikelihood_rolling":
        text = rendered(task["doc_to_target"], doc, code)
        ll = log_likelihood("", text)
        sizes = {"word_perplexity": len(re.split(r"\s+", text)), "bits_per_byte": len(text.encode())}
        return {name: (ll, sizes[name]) if name in sizes else ll if name == "first" else None}
    if kind == "multiple_choice":
        choices, gold = rendered(task["doc_to_choice"], doc, code), rendered(task["doc_to_target"], doc, code)
        lls = [log_likelihood(context, f" {choice}") for choice in choices]
        norm = [ll / len(choice) for ll, choice in zip(lls, choices)]
        right = {"acc": float(lls.index(max(lls)) == gold), "acc_norm": float(norm.index(max(norm)) == gold)}
        return {name: {**right, "margin": max(lls) - min(lls), "exact_match": 0.0}.get(name)}
    target, left = rendered(task["doc_to_target"], doc, code), filtered(each.get("filter"), answer(context), own)
    if name == "exact_match":
        text = left[0] if isinstance(left, list) else left
        return {name: float(text.strip() == target.strip() if own else text == target)}
    if name == "two":
        return {"long": float(len(left)), "short": 1.0}
    if name == "equal":
        return {name: float(left.strip() == target.strip())}
    return {name: None if name == "nothing" else float(left == target)}


def number(name: str, values: list[Any]) -> float | None:
    if any(value is None for value in values):
        return None
    if name == "word_perplexity":
        return math.exp(-sum(ll for ll, _ in values) / sum(size for _, size in values))
    if name == "bits_per_byte":
        return -sum(ll for ll, _ in values) / sum(size for _, size in values) / math.log(2)
    mean = math.fsum(values) / len(values)
    return math.exp(-mean) if name == "perplexity" else mean


# ---------------------------------------------------------------------- both, side by side


def run_in(folder: Path, names: list[str], model: Told) -> RunResult | AssayError:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return evaluate(model=model, tasks=names, include_path=str(folder), store=str(folder / "store.db"))
        except AssayError as error:
            return error


def shown(result: RunResult, task: str) -> dict[tuple[str, str], float | None]:
    return {(key.metric, key.filter): score.estimate.value for key, score in result.tasks[task].scores.items()}


def compare(found: dict[tuple[str, str], float | None], expected: dict[tuple[str, str], list[Any]]) -> None:
    assert found.keys() == expected.keys()
    for key, values in expected.items():
        wanted = number(key[0], values)
        assert (found[key] is None) == (wanted is None), (key, found[key], wanted)
        assert wanted is None or math.isclose(found[key] or 0.0, wanted, rel_tol=1e-9, abs_tol=1e-12), (
            key,
            found,
            wanted,
        )


def namespace() -> dict[str, Any]:
    made: dict[str, Any] = {}
    exec(CODE, made)
    return made


slowly = settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


@slowly
@given(task_files(), documents())
def test_every_number_of_a_file_is_that_of_a_plain_scorer(task: Task, docs: list[Doc]) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder, model = Path(place), Told(answer, log_likelihood)
        write_task(folder, docs, CODE, **{**task, "name": "mine"})
        result = run_in(folder, ["mine"], model)
    event(f"{task['output_type']}: {'refused' if isinstance(result, AssayError) else 'scored'}")
    if isinstance(result, AssayError):
        assert model.sent == 0, result
        return
    compare(shown(result, "mine"), values_of(task, docs, namespace()))


@slowly
@given(st.data(), st.booleans())
def test_the_number_of_a_group_is_the_mean_of_its_tasks(data: st.DataObject, by_size: bool) -> None:
    names, every = ["left", "right"], {}
    with tempfile.TemporaryDirectory() as place:
        folder, model = Path(place), Told(answer, log_likelihood)
        for name in names:
            docs = data.draw(documents())
            fields = {"output_type": "multiple_choice", "doc_to_text": "q", "doc_to_choice": "choices"}
            task = {**fields, "doc_to_target": "gold", "metric_list": [entry("acc"), entry("u.margin", "mean")]}
            write_task(folder, docs, CODE, name=name, **task)
            every[name] = values_of(task, docs, namespace())
        listed = [{"metric": metric, "weight_by_size": by_size} for metric in ("acc", "margin")]
        group = {"group": "both", "task": names, "aggregate_metric_list": listed}
        (folder / "both.yaml").write_text(yaml.safe_dump(group))
        result = run_in(folder, ["both"], model)
    assert isinstance(result, RunResult), result
    for metric in ("acc", "margin"):
        columns = [every[name][metric, "none"] for name in names]
        means = [sum(column) / len(column) for column in columns]
        pooled = sum(map(sum, columns)) / sum(map(len, columns))
        wanted = pooled if by_size else sum(means) / 2
        assert math.isclose(result.groups["both"].scores[MetricKey(metric)].estimate.value or 0.0, wanted, rel_tol=1e-9)


def listed_in(prompt: str) -> list[tuple[str, str]]:
    """The choices that a prompt lists, by their letters."""
    return re.findall(r"(?m)^([A-D])\. (.*)$", prompt)


class Heard(Told):
    """Remembers what it was asked; writes the letter or the text of some choice that its prompt lists."""

    def __init__(self, form: str) -> None:
        super().__init__(self._said, self._liked)
        self.form, self.asked = form, set[str]()

    def _said(self, context: str) -> str:
        self.asked.add(context)
        return self.pick(context)[self.form == "mc_completion"]

    def _liked(self, context: str, continuation: str) -> float:
        self.asked.add(context)
        return log_likelihood(context, continuation)

    @staticmethod
    def pick(context: str) -> tuple[str, str]:
        choices = listed_in(context)
        return choices[digest(context) % len(choices)]


@slowly
@given(documents(), st.sampled_from(["mc", "cloze", "gen", "mc_completion"]), st.booleans())
def test_every_number_of_a_variant_is_that_of_its_prompts(docs: list[Doc], form: str, one_sided: bool) -> None:
    """The right choice is read from the prompt that was sent, so that it holds for choices in any order."""
    if one_sided:
        docs = [{"q": f"{i}: which?", "a": "", "choices": [f"good {i}", f"bad {i}"], "gold": 0} for i in range(24)]
    fields = {"output_type": "multiple_choice", "doc_to_text": "q", "doc_to_choice": "choices", "doc_to_target": "gold"}
    with tempfile.TemporaryDirectory() as place:
        folder, model = Path(place), Heard(form)
        write_task(folder, docs, **fields)
        result = run_in(folder, [f"mine:{form}"], model)
    assert isinstance(result, RunResult), result
    right = []
    for doc in docs:
        (prompt,) = [context for context in model.asked if f"Question: {doc['q']}\n" in context]
        choices = listed_in(prompt) or [("", choice) for choice in doc["choices"]]
        if form in ("mc", "cloze"):
            picked = max(choices, key=lambda each: log_likelihood(prompt, f" {each[0] or each[1]}"))
        else:
            picked = model.pick(prompt)
        right.append(float(picked[1] == doc["choices"][doc["gold"]]))
    metric = "acc" if form in ("mc", "cloze") else "exact_match"
    found = result.tasks[f"mine:{form}"].scores[MetricKey(metric)].estimate.value
    assert found is not None
    assert math.isclose(found, sum(right) / len(right), abs_tol=1e-12), (found, right)
