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
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from tests.own_files import Told, function, write_task

from assay import evaluate
from assay.errors import AssayError
from assay.results import RunResult

Doc = dict[str, Any]
Task = dict[str, Any]

CODE = """
def text(doc): return "Q " + doc["q"]
def target(doc): return doc["a"]
def gold(doc): return doc["gold"]
def choices(doc): return list(doc["choices"])
def lists(resps, docs): return [[answer.upper() for answer in each] for each in resps]
def same(resps, docs): return resps
def listed(docs): return docs.filter(lambda doc: doc["q"] != "")
def equal(predictions, references): return float(predictions[0].strip() == references[0].strip())
def pair(items): return float(items[0] == items[1])
def two(predictions, references): return {"long": float(len(predictions[0])), "short": 1.0}
def nothing(predictions, references): return None
def margin(result): return max(result.lls) - min(result.lls)
def first(result): return result[0]
def spread(result): return max(result.lls) - min(result.lls)
def letters(predictions, references): return float(len(predictions[0]))
def data(**kwargs):
    import json, pathlib
    lines = pathlib.Path(__file__).with_name("mine.jsonl").read_text(encoding="utf-8").splitlines()
    return {"test": [json.loads(line) for line in lines]}
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
def documents(draw: Any, name: str = "") -> list[Doc]:
    count = draw(st.integers(1, 5))
    made = []
    for i in range(count):
        choices = draw(st.lists(words, min_size=2, max_size=4, unique=True))
        gold = draw(st.integers(0, len(choices) - 1))
        made.append({"q": f"{name}{i}: {draw(words)}?", "a": draw(words), "choices": choices, "gold": gold})
    return made


def entry(metric: str, aggregation: str | None = None) -> Any:
    named = function(metric) if metric.startswith("u.") else metric
    if aggregation is not None and aggregation.startswith("u."):
        aggregation = function(aggregation)
    return {"metric": named, **({} if aggregation is None else {"aggregation": aggregation})}


METRICS: dict[str, list[Any]] = {
    "multiple_choice": [
        entry("acc"),
        entry("acc_norm"),
        entry("u.margin", "mean"),
        entry("u.spread", "u.total"),
        entry("exact_match"),
    ],
    "generate_until": [
        entry("exact_match"),
        entry("u.equal"),
        entry("u.pair"),
        entry("u.two"),
        entry("u.letters", "u.total"),
        entry("u.nothing"),
    ],
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
PLAIN_STEPS: list[Any] = [
    None,
    [],
    [{"function": "noop"}],
    [{"function": "take_first"}],
    [{"function": "custom", "filter_fn": function("u.same")}],
]
"""Those that likelihoods can go through."""


@st.composite
def task_files(draw: Any, name: str = "mine", kind: str | None = None) -> Task:
    kind = kind or draw(st.sampled_from(sorted(METRICS)))
    listed = st.lists(
        st.sampled_from(METRICS[kind]), min_size=1, max_size=3, unique_by=lambda each: str(each["metric"])
    )
    fields: Task = {"output_type": kind, "doc_to_text": draw(st.sampled_from(["q", "Q {{q}}", function("u.text")]))}
    fields["doc_to_target"] = draw(st.sampled_from(["a", "{{a}}", function("u.target")]))
    if kind == "multiple_choice":
        choices = ["choices", "{{choices}}", function("u.choices"), ["yes", "{{a}}"]]
        fields["doc_to_choice"] = draw(st.sampled_from(choices))
        fields["doc_to_target"] = draw(st.sampled_from(["gold", "{{gold}}", function("u.gold")]))
    if draw(st.booleans()):
        of_kind = STEPS if kind == "generate_until" else PLAIN_STEPS
        steps = draw(st.lists(st.sampled_from(of_kind), min_size=1, max_size=2))
        filters = [{"name": f"f{i}", **({} if each is None else {"filter": each})} for i, each in enumerate(steps)]
        fields["filter_list"] = [
            {**each, "metric_list": draw(listed)} if draw(st.booleans()) else each for each in filters
        ]
    if kind == "generate_until" and draw(st.integers(0, 4)) == 0:
        fields["process_results"] = function("u.results")
        fields["metric_list"] = [entry("size", "mean"), entry("absent", "mean")]
    else:
        fields["metric_list"] = draw(listed)
    if kind != "generate_until" and draw(st.booleans()):
        fields["repeats"] = 3
    if draw(st.booleans()):
        fields["process_docs"] = function("u.listed")
    if draw(st.booleans()):
        fields["language"] = "en"
    return {**fields, "task": name}


# ---------------------------------------------------------------------- the plain scorer


def rendered(value: Any, doc: Doc, code: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [rendered(each, doc, code) if "{{" in each else each for each in value]
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
        apart = max(lls) - min(lls)
        return {name: {**right, "margin": apart, "spread": apart, "exact_match": 0.0}.get(name)}
    target, left = rendered(task["doc_to_target"], doc, code), filtered(each.get("filter"), answer(context), own)
    if name == "exact_match":
        # Files of the harness keep its reading of a text as a list of its characters.
        texts = left if isinstance(left, list) else [left]
        same = [float(text.strip() == target.strip() if own else text == target) for text in texts]
        return {name: math.fsum(same) / len(same) if same else PASSED_OVER}
    if name == "two":
        return {"long": float(len(left)), "short": 1.0}
    if name == "letters":
        return {name: float(len(left))}
    if name == "equal":
        return {name: float(left.strip() == target.strip())}
    return {name: None if name == "nothing" else float(left == target)}


PASSED_OVER = "passed over"
"""In place of a value: a doc of whose empty answer no character is left to be scored. It counts as not scored."""


def number(name: str, values: list[Any]) -> float | None:
    values = [value for value in values if value != PASSED_OVER]
    if not values or any(value is None for value in values):
        return None
    if name == "word_perplexity":
        return math.exp(-sum(ll for ll, _ in values) / sum(size for _, size in values))
    if name == "bits_per_byte":
        return -sum(ll for ll, _ in values) / sum(size for _, size in values) / math.log(2)
    if name in ("spread", "letters"):
        return math.fsum(values)
    mean = math.fsum(values) / len(values)
    return math.exp(-mean) if name == "perplexity" else mean


# ---------------------------------------------------------------------- both, side by side


def reads_lists_as_texts(task: Task) -> bool:
    """Whether a filter of a file of the harness leaves the list that its own code cannot read: known once it is called."""
    lists = [each for each in task.get("filter_list", ()) if each.get("filter", None) in ([], STEPS[-1])]
    names = {str(entry["metric"]) for each in lists for entry in each.get("metric_list") or task["metric_list"]}
    return not is_own(task) and bool(names & {"u.equal", "u.two", "u.pair", "u.letters"})


def run_in(folder: Path | None, names: list[str], model: Told, store: Path | None = None) -> RunResult | AssayError:
    known = {} if folder is None else {"include_path": str(folder)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return evaluate(model=model, tasks=names, store=str(store or f"{folder}/store.db"), **known)
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


slowly = settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


@pytest.mark.parametrize("kind", METRICS)
@settings(slowly, max_examples=12)
@given(st.data(), documents())
def test_every_number_of_a_file_is_that_of_a_plain_scorer(kind: str, data: st.DataObject, docs: list[Doc]) -> None:
    task = data.draw(task_files(kind=kind))
    if data.draw(st.booleans()):
        task["custom_dataset"] = function("u.data")
    with tempfile.TemporaryDirectory() as place:
        folder, model = Path(place), Told(answer, log_likelihood)
        write_task(folder, docs, CODE, **{**task, "name": "mine"})
        result = run_in(folder, ["mine"], model)
    event(f"{task['output_type']}: {'refused' if isinstance(result, AssayError) else 'scored'}")
    if isinstance(result, AssayError):
        assert model.sent == 0 or reads_lists_as_texts(task), result
        return
    compare(shown(result, "mine"), values_of(task, docs, namespace()))


@pytest.mark.parametrize("kind", METRICS)
@settings(slowly, max_examples=5)
@given(st.data(), documents())
def test_a_metric_of_other_answers_is_an_error_or_a_row_that_says_so(
    kind: str, data: st.DataObject, docs: list[Doc]
) -> None:
    task = data.draw(task_files(kind=kind))
    foreign = data.draw(st.sampled_from(OTHERS[kind]))
    for each in [task, *task.get("filter_list", ())]:
        each.pop("metric_list", None)
    task["metric_list"] = [METRICS[kind][0], foreign]
    task.pop("process_results", None)
    with tempfile.TemporaryDirectory() as place:
        folder, model = Path(place), Told(answer, log_likelihood)
        write_task(folder, docs, CODE, **{**task, "name": "mine"})
        result = run_in(folder, ["mine"], model)
    event(f"{kind}, {foreign['metric']}: {type(result).__name__}")
    if isinstance(result, AssayError):
        assert model.sent == 0 or str(foreign["metric"]).startswith("u."), result
        return
    rows = {name: value for (name, _), value in shown(result, "mine").items()}
    assert rows[str(foreign["metric"]).removeprefix("u.")] is None, rows


def listed_in(prompt: str) -> list[tuple[str, str]]:
    """The choices that a prompt lists, by their letters."""
    return re.findall(r"(?m)^([A-D])\. (.*)$", prompt.rpartition("Question: ")[2])


class Heard(Told):
    """Remembers what it was asked. Where its prompt lists choices, it writes the letter or the text of some of them."""

    def __init__(self, form: str) -> None:
        super().__init__(self._said, self._liked)
        self.form, self.asked = form, set[str]()

    def _said(self, context: str) -> str:
        self.asked.add(context)
        return self.pick(context)[self.form == "mc_completion"] if listed_in(context) else answer(context)

    def _liked(self, context: str, continuation: str) -> float:
        self.asked.add(context)
        return log_likelihood(context, continuation)

    @staticmethod
    def pick(context: str) -> tuple[str, str]:
        choices = listed_in(context)
        return choices[digest(context) % len(choices)]


def values_in_form(form: str, docs: list[Doc], model: Heard) -> dict[tuple[str, str], list[Any]]:
    """The values of a choice task in another form. The right choice is read from the prompt that was sent, so that it holds
    for choices in any order."""
    values: dict[tuple[str, str], list[Any]] = {}
    for doc in docs:
        (prompt,) = [each for each in model.asked if f"{doc['q']}\n" in each.rpartition("Question: ")[2]]
        gold, listed = doc["choices"][doc["gold"]], listed_in(prompt) or [("", each) for each in doc["choices"]]
        if form in ("gen", "mc_completion"):
            values.setdefault(("exact_match", "none"), []).append(float(model.pick(prompt)[1] == gold))
            continue
        said = [f" {letter or text}" for letter, text in listed]
        lls = [log_likelihood(prompt, each) for each in said]
        norm = [ll / len(each) for ll, each in zip(lls, said)]
        right = [text for _, text in listed].index(gold)
        mine = {"acc": float(lls.index(max(lls)) == right), "acc_norm": float(norm.index(max(norm)) == right)}
        mine["gold_bits_per_byte"] = -lls[right] / math.log(2) / len(said[right].encode())
        for name, value in mine.items():
            values.setdefault((name, "none"), []).append(value)
    return values


@settings(slowly, max_examples=16)
@given(documents(), st.sampled_from(["mc", "cloze", "gen", "mc_completion"]), st.booleans())
def test_every_number_of_a_variant_is_that_of_its_prompts(docs: list[Doc], form: str, one_sided: bool) -> None:
    if one_sided:
        docs = [
            {"q": f"number {i:02}: which?", "a": "", "choices": [f"good {i}", f"bad {i}"], "gold": 0} for i in range(24)
        ]
    fields = {"output_type": "multiple_choice", "doc_to_text": "q", "doc_to_choice": "choices", "doc_to_target": "gold"}
    with tempfile.TemporaryDirectory() as place:
        folder, model = Path(place), Heard(form)
        write_task(folder, docs, **fields)
        result = run_in(folder, [f"mine:{form}"], model)
    assert isinstance(result, RunResult), result
    compare(shown(result, f"mine:{form}"), values_in_form(form, docs, model))


# ---------------------------------------------------------------------- groups and variants over random files

NAMES = sorted(
    {"acc", "acc_norm", "exact_match", "margin", "perplexity", "first", "long", "size", "gold_bits_per_byte"}
)
Suite = tuple[dict[str, Task], dict[str, list[Doc]], dict[str, str], list[dict[str, Any]], str]


@st.composite
def suites(draw: Any) -> Suite:
    """Files, their docs, the form of each, groups over them (the last one holds the others), and the form that writes."""
    written = draw(st.sampled_from(["gen", "mc_completion"]))
    kinds = st.sampled_from(["multiple_choice", "multiple_choice", *sorted(METRICS)])
    tasks = {name: draw(task_files(name, draw(kinds))) for name in ["ta", "tb", "tc"][: draw(st.integers(1, 3))]}
    docs = {name: draw(documents(name)) for name in tasks}
    forms = dict.fromkeys(tasks, "")
    for name, task in tasks.items():
        if task["output_type"] == "multiple_choice" and not isinstance(task["doc_to_choice"], list):
            forms[name] = draw(st.sampled_from(["", "mc", "cloze", written]))
    members = [f"{name}:{form}" if form else name for name, form in forms.items()]
    entries = st.fixed_dictionaries(
        {"metric": st.sampled_from(NAMES), "weight_by_size": st.booleans()},
        optional={"missing": st.sampled_from(["skip", "undefined"])},
    )
    listed = st.lists(entries, min_size=1, max_size=3, unique_by=lambda each: str(each["metric"]))
    inner = {"group": "inner", "task": draw(st.lists(st.sampled_from(members), min_size=1, unique=True))}
    groups: list[dict[str, Any]] = [{**inner, "aggregate_metric_list": draw(listed)}] if draw(st.booleans()) else []
    above = draw(st.permutations([*members, *[group["group"] for group in groups]]))
    groups.append({"group": "outer", "task": above, "aggregate_metric_list": draw(listed)})
    return tasks, docs, forms, groups, written


def tasks_below(name: str, groups: list[dict[str, Any]]) -> list[str]:
    """Each once, however often it is reached."""
    found = [group for group in groups if group["group"] == name]
    below = [task for member in found[0]["task"] for task in tasks_below(member, groups)] if found else [name]
    return list(dict.fromkeys(below))


def group_numbers(
    group: dict[str, Any], groups: list[dict[str, Any]], values: dict[str, dict[tuple[str, str], list[Any]]]
) -> dict[tuple[str, str], float | None]:
    numbers: dict[tuple[str, str], float | None] = {}
    below = tasks_below(group["group"], groups)
    for entry in group["aggregate_metric_list"]:
        keys = dict.fromkeys(key for task in below for key in values[task] if key[0] == entry["metric"])
        for key in keys:
            columns = [values[task].get(key, [None]) for task in below]
            known = [(n, len(c) - c.count(PASSED_OVER)) for c in columns if (n := number(key[0], c)) is not None]
            if len(known) < len(below) and entry.get("missing") == "undefined":
                numbers[key] = None
            elif known:
                sizes = [size if entry["weight_by_size"] else 1 for _, size in known]
                numbers[key] = sum(n * size for (n, _), size in zip(known, sizes)) / sum(sizes)
            elif "missing" in entry:
                numbers[key] = None
        if not keys and "missing" in entry:
            numbers[entry["metric"], "none"] = None
    return numbers


@slowly
@given(suites())
def test_every_number_of_groups_and_variants_over_random_files_is_that_of_the_plain_scorer(suite: Suite) -> None:
    tasks, docs, forms, groups, written = suite
    with tempfile.TemporaryDirectory() as place:
        folder, model = Path(place), Heard(written)
        for name, task in tasks.items():
            write_task(folder, docs[name], CODE, name=name, **{key: task[key] for key in task if key != "task"})
        for group in groups:
            (folder / f"{group['group']}.yaml").write_text(yaml.safe_dump(group))
        # By its file alone: what it names lies beside it.
        result = run_in(None, [str(folder / "outer.yaml")], model, store=folder / "store.db")
    event(
        f"{len(groups)} groups, {sorted(forms.values())}: {'refused' if isinstance(result, AssayError) else 'scored'}"
    )
    if isinstance(result, AssayError):
        assert model.sent == 0 or any(map(reads_lists_as_texts, tasks.values())), result
        return
    values = {}
    for name, form in forms.items():
        own = values_of(tasks[name], docs[name], namespace()) if not form else values_in_form(form, docs[name], model)
        values[f"{name}:{form}" if form else name] = own
        compare(shown(result, f"{name}:{form}" if form else name), own)
    for group in groups:
        found = {
            (key.metric, key.filter): score.estimate.value
            for key, score in result.groups[group["group"]].scores.items()
        }
        wanted = group_numbers(group, groups, values)
        assert found.keys() == wanted.keys(), (found, wanted)
        for key, value in wanted.items():
            assert (found[key] is None) == (value is None), (key, found[key], value)
            assert value is None or math.isclose(found[key] or 0.0, value, rel_tol=1e-9, abs_tol=1e-12), (
                key,
                found,
                value,
            )


# ---------------------------------------------------------------------- several draws of a text


class Sampled(Told):
    """Says something else each time it is asked the same."""

    def __init__(self) -> None:
        super().__init__(self._said)
        self.times: dict[str, int] = {}

    def _said(self, context: str) -> str:
        draw = self.times[context] = self.times.get(context, -1) + 1
        return drawn(context, draw)


def drawn(context: str, draw: int) -> str:
    return answer(f"{context}, draw {draw}")


DRAW_STEPS: list[Any] = [
    None,
    [{"function": "take_first"}],
    [{"function": "lowercase"}, {"function": "remove_whitespace"}],
    [{"function": "regex", "regex_pattern": "([A-Z0-9])"}, {"function": "take_first_k", "k": 2}],
    [{"function": "majority_vote"}],
    [{"function": "custom", "filter_fn": function("u.lists")}, {"function": "majority_vote"}],
]
REDUCED: dict[str | None, Any] = {
    None: lambda values: math.fsum(values) / len(values),
    "first": lambda values: values[0],
    "min": min,
    "max": max,
    "pass@2": lambda values: sum(max(a, b) for a, b in combinations(values, 2)) / math.comb(len(values), 2),
    "pass^2": lambda values: sum(min(a, b) for a, b in combinations(values, 2)) / math.comb(len(values), 2),
    "at_least_2": lambda values: float(sum(values) >= 2),
}


def left_of_draws(steps: Any, said: list[str]) -> list[str]:
    """What a filter leaves of the draws of one doc."""
    for step in steps or []:
        match step["function"]:
            case "take_first":
                said = said[:1]
            case "take_first_k":
                said = said[:2]
            case "majority_vote":
                said = [max(said, key=said.count)]
            case "lowercase":
                said = [each.lower() for each in said]
            case "remove_whitespace":
                said = [each.strip() for each in said]
            case "regex":
                said = [
                    re.findall("([A-Z0-9])", each)[0] if re.search("[A-Z0-9]", each) else "[invalid]" for each in said
                ]
            case "custom":
                said = [each.upper() for each in said]
    return said


@settings(slowly, max_examples=40)
@given(
    documents(),
    st.integers(2, 5),
    st.lists(st.sampled_from(DRAW_STEPS), min_size=1, max_size=3),
    st.sampled_from(list(REDUCED)),
)
def test_every_number_of_several_draws_is_that_of_the_plain_scorer(
    docs: list[Doc], draws: int, steps: list[Any], reducer: str | None
) -> None:
    metrics = [entry("exact_match"), entry("u.equal")]
    fields = {
        "output_type": "generate_until",
        "doc_to_text": "q",
        "doc_to_target": "a",
        "language": "en",
        "repeats": draws,
        "generation_kwargs": {"do_sample": True, "temperature": 1.0},
        "filter_list": [
            {"name": f"f{i}", **({} if each is None else {"filter": each})} for i, each in enumerate(steps)
        ],
        # Without a reducer a function is given all draws at once: `test_own_files` has the note.
        "metric_list": [each | {"reducer": reducer or "mean"} for each in metrics],
    }
    expected: dict[tuple[str, str], list[Any]] = {}
    for i, each in enumerate(steps):
        for doc in docs:
            said = left_of_draws(each, [drawn(doc["q"], draw) for draw in range(draws)])
            values = [float(text.strip() == doc["a"].strip()) for text in said]
            enough = len(values) >= 2 or reducer not in ("pass@2", "pass^2", "at_least_2")
            is_one = each is not None and each[-1]["function"] == "take_first"
            reduced = values[0] if is_one else REDUCED[reducer](values) if enough else None
            for name in ("exact_match", "equal"):
                expected.setdefault((name, f"f{i}"), []).append(reduced)
    with tempfile.TemporaryDirectory() as place:
        folder, model = Path(place), Sampled()
        write_task(folder, docs, CODE, **fields)
        result = run_in(folder, ["mine"], model)
    event("refused" if isinstance(result, AssayError) else "scored")
    if isinstance(result, AssayError):
        assert model.sent == 0, result
        return
    compare(shown(result, "mine"), expected)
