"""What tasks need and a model lacks: refused before the first request, with what would work instead."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

from assay.config import RunConfig
from assay.errors import ConfigError
from assay.instance import Instance, Response, context_text
from assay.models import ABILITIES, LENGTH_NAMES, LM, Capabilities, GenerationSettings
from assay.request_types import OUTPUT_TYPES, REQUEST_TYPES, RequestType, request_type_of
from assay.run.plan import Plan, PlannedTask, manager_for
from assay.store import ResponseStore
from assay.tasks import Task, TaskManager, generation_settings


def check_needs(plan: Plan, lm: LM, store: ResponseStore | None = None) -> None:
    """Raise for the first task that the model cannot answer. A server is probed only for what some task needs."""
    for planned in plan.tasks.values():
        if planned.task.config.doc_to_audio is not None:
            raise ConfigError(
                f"{planned.name} needs sound (doc_to_audio), which no backend sends",
                hint="Leave out the task; without the sound, the score would mean nothing.",
            )
    wanted = {ability for planned in plan.tasks.values() for ability in needs(planned, lm)}
    able = abilities_of(lm, store, wanted)
    if lm.cuts_answers:  # an answer that was written on is as good, though it costs more
        able = replace(able, stop_strings=True)
    for planned in plan.tasks.values():
        for problem in problems(planned, able):
            raise problem
        if opens_answers(planned, lm) and not able.continues:
            raise ConfigError(
                f"{planned.name} begins the model's answer (gen_prefix), but this model does not continue from there",
                hint="Leave out --apply_chat_template; the prompt is then one message that ends with the prefix.",
            )
    for planned in plan.tasks.values():
        check_length(planned, lm)


def needs(planned: PlannedTask, lm: LM) -> set[str]:
    """What has to be known of the model before the task is sent."""
    config = planned.task.config
    # Where it lacks what a task needs, what it has instead is to be known too.
    wanted = {"likelihoods", "top_logprobs"} if (row := requests_of(planned)) and row.needs else set()
    wanted |= {"images"} if config.doc_to_image is not None else set()
    wanted |= {"continues"} if opens_answers(planned, lm) else set()
    wanted |= {"stop_strings"} if stops_answers(planned) else set()
    return wanted | ({"tools"} if offers_tools(planned) else set())


def offers_tools(planned: PlannedTask) -> bool:
    """Whether tools go to the model as servers and chat templates take them, and not as part of a text."""
    config = planned.task.config
    return bool(config.tools) or (config.agent is not None and config.tool_protocol == "native")


def requests_of(planned: PlannedTask) -> RequestType | None:
    return request_type_of(planned.task.config.output_type)


def writes_answers(planned: PlannedTask) -> bool:
    row = requests_of(planned)
    return row is not None and row.is_text


def opens_answers(planned: PlannedTask, lm: LM) -> bool:
    """Whether a server is sent the beginning of its own answer as a message. In a text it is the end of the prompt."""
    return bool(planned.task.config.gen_prefix) and planned.options.apply_chat_template and lm.info().chat == "messages"


def stops_answers(planned: PlannedTask) -> bool:
    return writes_answers(planned) and bool(generation_settings(planned.task.config, planned.options).get("until"))


def check_length(planned: PlannedTask, lm: LM) -> None:
    """Raise where an answer as long as the task allows leaves no room for a prompt."""
    kwargs = generation_settings(planned.task.config, planned.options)
    if not writes_answers(planned) or not any(kwargs.get(each) for each in LENGTH_NAMES):
        return
    length = GenerationSettings.parse(kwargs).max_gen_toks
    context = lm.context_length()
    if context is not None and length >= context:
        raise ConfigError(
            f"{planned.name} asks for answers of {length:,} tokens, but this model reads only {context:,} in total, including the prompt",
            hint="Lower it with --gen_kwargs max_gen_toks=…, or serve the model with a longer context.",
        )


def problems(planned: PlannedTask, able: Capabilities) -> Iterator[ConfigError]:
    task, name = planned.task, planned.name
    row = requests_of(planned)
    if row is not None and row.needs and not any(able.named()[each] for each in row.needs):
        yield ConfigError(
            f"{name} needs {row.needs_words or ' or '.join(row.needs)}, which this model does not give",
            hint=instead(task, planned.called or name, able),
        )
    if stops_answers(planned) and not able.stop_strings:
        yield ConfigError(
            f"{name} ends its answers at stop strings (until), which this model does not accept",
            hint="Turn them off with --gen_kwargs '{\"until\": []}' if whole answers can be scored.",
        )
    if offers_tools(planned) and not able.tools:
        or_words = "" if task.config.agent is None else " tool_protocol: text in the task file describes them in words."
        yield ConfigError(
            f"{name} gives the model tools to call, which this model does not accept",
            hint=f"Use a chat server with a model that calls tools; llama.cpp needs --jinja, vLLM --enable-auto-tool-choice.{or_words}",
        )
    if task.config.doc_to_image is not None and not able.images:
        yield ConfigError(
            f"{name} shows images (doc_to_image), which this model does not accept",
            hint="Use local-chat-completions or openai-chat-completions with a model that accepts images.",
        )


def instead(task: Task, name: str, able: Capabilities) -> str:
    known = OUTPUT_TYPES.get(task.config.output_type)
    if known is None or not known.is_choice:
        return "Choose tasks that generate (assay ls tasks shows the type), or a backend such as hf or vllm."
    own = known.requests.choice_style
    base, *parts = name.split(":")
    others = [part for part in parts if part != own]
    forms = ["gen", "cot", *(form for form in choice_styles(able) if form not in ("gen", own))]
    shots = others if own in parts else [part for part in parts if part.endswith("shot")]
    names = [":".join([base, form, *shots]) for form in forms]
    auto = "" if own else "; --style auto chooses for every choice task"
    return f"Try {', '.join(names[:-1])} or {names[-1]}{auto}."


def choice_styles(able: Capabilities) -> list[str]:
    """Styles in which this model can answer choice questions, the best first."""
    rows = [REQUEST_TYPES[name] for name in REQUEST_TYPES]
    able_to = [row for row in rows if row.choice_style and (not row.needs or any(able.named()[n] for n in row.needs))]
    return [row.choice_style for row in sorted(able_to, key=lambda row: row.is_text) if row.choice_style]


def with_style(
    config: RunConfig,
    lm: LM,
    manager: TaskManager | None = None,
    *,
    ready: Collection[str] = (),
    store: ResponseStore | None = None,
) -> RunConfig:
    """`--style auto`: choice tasks in the form that the model can answer. Their rows carry the form's name."""
    if config.style != "auto":
        return config
    able = abilities_of(lm, store, ("likelihoods", "top_logprobs"))
    if able.likelihoods:
        return config
    form = choice_styles(able)[0]
    manager = manager or manager_for(config)
    names = [name if name in ready else _named(name, form, manager) for name in config.tasks]
    return config.model_copy(update={"tasks": names})


def _named(name: str, form: str, manager: TaskManager) -> str:
    types = {task.config.output_type for task in manager.load([name]).tasks.values()}
    if "multiple_choice" not in types:
        return name
    if types != {"multiple_choice"}:
        raise ConfigError(
            f"--style auto: {name} has choice tasks and others ({', '.join(sorted(types))}), and a form applies to all",
            hint="Name its tasks one by one.",
        )
    return f"{name}:{form}"


def abilities_of(lm: LM, store: ResponseStore | None, wanted: Collection[str] = ABILITIES) -> Capabilities:
    """Only what a server was found to have is stored: one that lacks something may be started with it tomorrow."""
    fingerprint = lm.fingerprint()
    if store is None or not wanted or not fingerprint:
        return lm.capabilities(wanted)
    keys = {name: _key(fingerprint, name) for name in wanted}
    origin = store.begin(model=lm.info().name, fingerprint=fingerprint)
    stored = store.get_many(keys.values(), origin)
    known = {name for name, key in keys.items() if key in stored and stored[key].answer is True}
    found = lm.capabilities(wanted, known)
    if found != lm.info().capabilities:  # else nothing was probed: the model knows by itself
        for name in wanted:
            if found.named()[name] and name not in known:
                store.put(keys[name], Response(True), origin)
    return found


def _key(fingerprint: str, ability: str) -> bytes:
    return hashlib.sha256(f"{fingerprint}\0can be asked for {ability}".encode("utf-8", "surrogatepass")).digest()


# Prompts that are longer than the model reads: said before they are sent, and refused where none would fit.

IN_A_ROW = 8
"""So many prompts that fit, longest text first, and the shorter ones are taken to fit too."""
MOST = 64
"""So many prompts that are too long are counted, and no more: each may be a question to a server."""


def say_what_is_too_long(lm: LM, instances: Sequence[Instance], say: Callable[[str], None]) -> None:
    """One line for each task with prompts that are too long. Where the model would read none of them whole and does not
    cut them itself, the task is refused."""
    by_task: dict[str, list[Instance]] = {}
    for instance in instances:
        if REQUEST_TYPES[instance.request_type].has_context:
            by_task.setdefault(instance.task_name, []).append(instance)
    if not by_task:
        return
    cuts = lm.cuts_prompts  # a model that loads late is there from now on, and knows what it reads
    context = lm.context_length()
    if context is None:
        return
    for task, prompts in by_task.items():
        ordered = sorted(prompts, key=_characters, reverse=True)
        none_fits = _is_too_long(lm, ordered[-1], context)
        count = len(prompts) if none_fits else _count(lm, ordered, context)
        if not count:
            continue
        least = "at least " if count == MOST < len(prompts) and not none_fits else ""
        what = f"{task}: {least}{count:,} of {len(prompts):,} prompts are longer than the {context:,} tokens that this model can read, including the answer"
        if none_fits and not cuts:
            raise ConfigError(what, hint="Use fewer shots (--num_fewshot), or serve it with a longer context.")
        then = "they are cut on the left" if cuts else "the server will reject them"
        say(f"{what}: {then}. Fewer shots (--num_fewshot) make them shorter.")


def _count(lm: LM, ordered: Sequence[Instance], context: int) -> int:
    """Prompts that are too long, the longest texts first."""
    count = fitting = 0
    for instance in ordered:
        if fitting == IN_A_ROW or count == MOST:
            break
        is_too_long = _is_too_long(lm, instance, context)
        if is_too_long is None:
            break
        count, fitting = count + is_too_long, 0 if is_too_long else fitting + 1
    return count


def _is_too_long(lm: LM, instance: Instance, context: int) -> bool | None:
    """None where nobody can say, and where the text has no more bytes than there may be tokens."""
    text = f"{context_text(instance.args[0])}{_given(instance)}"
    room = context - _answer(lm, instance)
    tokens = lm.text_tokens(text) if len(text.encode("utf-8", "replace")) > room else None
    return None if tokens is None else tokens > room


def _characters(instance: Instance) -> int:
    return len(context_text(instance.args[0])) + len(_given(instance))


def _given(instance: Instance) -> str:
    """The text after the prompt that is scored and not written."""
    place = REQUEST_TYPES[instance.request_type].scored_argument
    return "" if place is None else str(instance.args[place])


def _answer(lm: LM, instance: Instance) -> int:
    """Tokens of the answer that have to fit beside the prompt; the last of a given text is not read."""
    row = REQUEST_TYPES[instance.request_type]
    if row.is_text:
        return GenerationSettings.parse(instance.args[1], max_gen_toks=lm.info().max_gen_toks).max_gen_toks
    return 0 if row.scored_argument is None else -1
