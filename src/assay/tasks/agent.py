"""Agents: a conversation whose next request follows from what tools gave."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from assay.agents import (
    END,
    AgentPlan,
    BranchPoint,
    TrajectoryState,
    UserTurn,
    Workspace,
    answer_message,
    calls_of,
    code_digest,
    described,
    listed,
    offers_of,
    result_messages,
    why_malformed,
)
from assay.config import AgentConfig, TaskConfig
from assay.errors import ConfigError, DataError
from assay.instance import Doc, Instance, Message, Response, context_text, is_chat
from assay.results import EndState, fold_trajectories, is_folded
from assay.tasks.agent_docs import AgentDocs
from assay.tasks.base import Task
from assay.tasks.branches import replayed
from assay.tasks.prompt import DocRequests, RequestOptions, Shot, chat_messages
from assay.tasks.types import ConversationTask, generation_settings
from assay.templates import Template, compile_template

NUDGE = "Call a tool, or call submit with your final answer."
NUDGE_IN_TEXT = """To call a tool, or to submit your final answer, end your message with one JSON object in a fence, like this:

```json
{"name": "submit", "arguments": {"answer": "ANSWER"}}
```"""
NUDGE_TO_ANSWER = "Go on, or give your final answer."


class AgentTask(ConversationTask):
    """The model calls tools, step by step, until it answers or a limit ends it.

        output_type: agent
        doc_to_text: "{{question}}"
        agent:
          tools: [!function tools.lookup, bash]
          limits: {steps: 20}

    A doc has one request of its own, which each draw answers by a whole trajectory: the answer is what the model submits, and
    with it comes all that was said and called. Each step is a request of the run like any other.
    """

    OUTPUT_TYPE: ClassVar[str] = "agent"
    acts: ClassVar[bool] = True

    def __init__(self, config: TaskConfig, *, data_dir: str | Path | None = None, name: str | None = None) -> None:
        if config.agent is None:
            raise ConfigError(
                f"task {config.task}: output_type agent needs `agent:`",
                hint="Name at least its tools: agent: {tools: […]}.",
            )
        if config.turns:
            raise ConfigError(
                f"task {config.task}: an agent has no `turns`", hint="A user that answers is `agent: {user: …}`."
            )
        Task.__init__(self, config, data_dir=data_dir, name=name)
        self.agent: AgentConfig = config.agent
        self._parts = AgentDocs(config.agent)
        user = self.agent.user
        self.roles = () if user is None or user.template is None else (user.role,)

    @property
    def as_text(self) -> bool:
        return self.config.tool_protocol == "text"

    def doc_to_target(self, doc: Doc) -> Any:
        """None where the task names none: what an agent leaves behind may be judged without one."""
        return None if self.config.doc_to_target is None else super().doc_to_target(doc)

    def check_options(self, options: RequestOptions) -> None:
        if not options.apply_chat_template:
            raise ConfigError(
                f"task {self.task_name}: an agent needs a chat, in which tools answer",
                hint="Add --apply_chat_template.",
            )

    def own_workspaces(self, doc_ids: Sequence[int]) -> Iterator[tuple[int, Workspace]]:
        if isinstance(self.agent.sandbox.files, Mapping | str):
            return
        wanted = set(doc_ids)
        yield from ((at, self._parts.workspace(doc)) for at, doc in enumerate(self.eval_docs) if at in wanted)

    # -- the first request ---------------------------------------------------------------------------------------------

    def _requests_of(self, doc_id: int, doc: Doc, shots: Sequence[Shot], options: RequestOptions) -> DocRequests:
        tools = offers_of(self.agent, doc)
        names = [tool.name for tool in tools]
        if len(set(names)) < len(names):
            raise ConfigError(f"two tools have the same name: {', '.join(sorted(names))}", hint="Rename one of them.")
        turns = self._parts.turns(doc)
        later = {name for turn in turns for name in turn.tools}
        if later - set(names):
            raise DataError(
                f"the user's turns offer tools that the task lacks: {', '.join(sorted(later - set(names)))}"
            )
        system = self._system(doc, options)
        if self.as_text:
            at_first = [tool for tool in tools if tool.name not in later]
            system = "\n\n".join(part for part in (system, described(at_first)) if part)
        opening = chat_messages(system, shots, self._question(doc), multiturn=options.fewshot_as_multiturn)
        messages = tuple(Message.from_dict(message) for message in opening)
        offers = [tool.offer for tool in tools]
        settings = self._settings(options, offers)
        workspace = self._parts.workspace(doc)
        whole = {**settings, "agent": self._identity(workspace, turns)}
        instance = Instance("agent", doc, (self._context_of(messages, settings, options), whole), 0)
        instance.doc_id, instance.task_name, instance.target = doc_id, self.task_name, self.doc_to_target(doc)
        instance.repeats = options.repeats or self.config.repeats
        requests = DocRequests(doc_id, doc, instance.target, [instance])
        own = {key: whole["agent"].get(key) for key in ("code", "files", "setup", "output", "protocol")}
        own |= {key: whole["agent"][key] for key in ("image", "place", "check") if key in whole["agent"]}
        own |= {"turns": whole["agent"]["turns"]} if turns else {}
        said = json.dumps([requests.doc_hash, opening, own], sort_keys=True, default=str)
        identity = hashlib.sha256(said.encode("utf-8", "surrogatepass")).digest()
        requests.state = AgentPlan(
            self.agent, doc, messages, settings, offers, workspace, identity, turns, options.prices, options
        )
        return requests

    def _identity(self, workspace: Workspace, turns: Sequence[UserTurn]) -> dict[str, Any]:
        """What decides a trajectory beside its prompt; part of the doc's request, so that another one has another hash."""
        said = {"protocol": self.config.tool_protocol, "code": code_digest(self.agent), **asdict(workspace)}
        del said["build"]  # a directory of this machine; the image's name says what it is built from
        said["turns"] = [asdict(turn) for turn in turns]
        own = self.agent.model_dump(include={"submit", "output", "limits"}, exclude_none=True)
        if self.roles and self.agent.user is not None:
            own["user"] = self.agent.user.model_dump(exclude_none=True)
        return {key: value for key, value in {**own, **said}.items() if value}

    def _settings(self, options: RequestOptions, offers: list[dict[str, Any]]) -> dict[str, Any]:
        settings = {**generation_settings(self.config, options)}
        if self.as_text:
            return settings
        required = {"tool_choice": "required"} if self.agent.tool_choice == "required" else {}
        return {**settings, "tools": offers, **required}

    def _context_of(self, messages: Sequence[Message], settings: Mapping[str, Any], options: RequestOptions) -> Any:
        if options.chat_template is None:  # samples that are scored again, without the model whose template made them
            return tuple(messages)
        tools = settings.get("tools")
        template: Any = options.chat_template
        return template(messages, True, tools=tools) if tools else template(messages, True)

    # -- trajectories ----------------------------------------------------------------------------------------------------

    def trajectories(self, requests: DocRequests) -> list[DocRequests]:
        return [
            self._begun(requests, TrajectoryState(requests.state, draw))
            for draw in range(requests.instances[0].repeats)
        ]

    def branches(self, requests: DocRequests, points: Sequence[BranchPoint]) -> list[DocRequests]:
        """In place of its draws: trajectories of a finished run, from where each is left."""
        requests.instances[0].repeats = len(points)
        return [self._begun(requests, TrajectoryState(requests.state, each.draw, point=each)) for each in points]

    def _begun(self, requests: DocRequests, state: TrajectoryState) -> DocRequests:
        one = DocRequests(requests.doc_id, requests.doc, requests.target, [], state=state)
        one.instances += self._first(one)
        for place, instance in enumerate(one.instances):
            instance.idx, instance.doc_id, instance.task_name = place, requests.doc_id, self.task_name
        return one

    def _first(self, requests: DocRequests) -> list[Instance]:
        """The first thing that is requested: of the model, or what follows the steps of a finished run."""
        state: TrajectoryState = requests.state
        if state.point is None:
            return [self._ask(requests)]
        waiting = [] if state.stays else replayed(requests, self._ask(requests), self._next)
        if state.point.step is not None:
            return waiting
        state.end(state.point.source.ended)
        return self._end(requests)

    def fold(self, requests: DocRequests, trajectories: Sequence[DocRequests]) -> None:
        finished = []
        for each in trajectories:
            failures = (instance.failure for instance in each.instances if instance.failure)
            failure = next(failures, None) or (None if each.state.ended else "it was not finished")
            finished.append(each.state.finished(failure))
            each.state.close()
        fold_trajectories(requests.instances[0], finished)

    def next_requests(self, requests: DocRequests) -> list[Instance]:
        if is_folded(requests.instances[0]):  # as an earlier run stored it
            return []
        try:
            return self._next(requests)
        except Exception as error:  # code of a task file may raise anything
            raise self._with_doc(error, requests.doc_id, requests.doc) from error

    def _next(self, requests: DocRequests) -> list[Instance]:
        state: TrajectoryState = requests.state
        answered, state.seen = requests.instances[state.seen :], len(requests.instances)
        if state.diverged:
            requests.state = state.begun_anew()
            return self._first(requests)
        if answered[0].role == "model":
            return self._after_answer(requests, answered[0])
        if answered[0].role == "tool":
            return self._after_tools(requests, answered)
        return self._after_user(requests, answered[0])

    def _after_answer(self, requests: DocRequests, instance: Instance) -> list[Instance]:
        state: TrajectoryState = requests.state
        response = instance.responses[0] or Response(instance.resps[0])
        state.take_answer(response, instance.note.get("seconds", 0.0))
        as_text = self.as_text or not is_chat(instance.arguments[0])
        calls = calls_of(response, state.offers, as_text=as_text, step=state.steps)
        state.messages.append(answer_message(response, calls, as_text=as_text))
        if calls:
            return self._call(requests, calls)
        return self._after_words(requests, str(response.answer))

    def _call(self, requests: DocRequests, calls: list[dict[str, Any]]) -> list[Instance]:
        """Make the calls; those that come after a submission are not made any more."""
        state: TrajectoryState = requests.state
        for place, call in enumerate(calls):
            if call["name"] == "submit" and self.agent.submit == "tool" and isinstance(call["arguments"], Mapping):
                given = call["arguments"].get("answer", "")
                state.answer = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
                state.end("submitted")
                calls = calls[:place]
                break
        state.pending = calls
        made = [self._tool_call(requests, {**call, "refused": why_malformed(call)}) for call in calls]
        return made or self._end(requests)

    def _after_words(self, requests: DocRequests, said: str) -> list[Instance]:
        """The model said something and called nothing: to its user, as its answer, or for no good reason."""
        state: TrajectoryState = requests.state
        if self.agent.user is not None:
            state.answer, state.turn_steps = said, 0
            state.check_limits()
            if state.ended:
                return self._end(requests)
            return [self._ask_user(requests)] if self.roles else self._next_turn(requests)
        if self.agent.submit == "last message" and said.strip():
            state.answer = said
            state.end("answered")
            return self._end(requests)
        nudge = NUDGE_IN_TEXT if self.as_text else NUDGE
        state.messages.append(Message("user", nudge if self.agent.submit == "tool" else NUDGE_TO_ANSWER))
        state.check_limits()
        return self._go_on(requests)

    def _after_tools(self, requests: DocRequests, answered: Sequence[Instance]) -> list[Instance]:
        state: TrajectoryState = requests.state
        results = [instance.responses[0] or Response("") for instance in answered]
        if answered[0].arguments[0].get("end"):
            state.end_state = EndState.from_dict(results[0].more.get("end_state") or {})
            state.take_seconds(results[0])
            return []
        for call, result in zip(state.pending, results):
            state.take_result(call, result)
        texts = [str(result.answer) for result in results]
        as_text = self.as_text or not state.messages[-1].tool_calls
        state.messages += result_messages(state.pending, texts, as_text=as_text)
        state.check_loop(state.pending, texts)
        state.check_limits()
        return self._go_on(requests)

    def _after_user(self, requests: DocRequests, instance: Instance) -> list[Instance]:
        state, user = requests.state, self.agent.user
        assert user is not None
        said = str(instance.resps[0])
        if user.stop in said:
            state.end("stopped")
            return self._end(requests)
        state.take_user(said.strip())
        return self._go_on(requests)

    def _next_turn(self, requests: DocRequests) -> list[Instance]:
        """What a scripted user says next; when it has said all, the trajectory is over."""
        state: TrajectoryState = requests.state
        if state.turn == len(state.plan.turns):
            state.end("answered")
            return self._end(requests)
        turn = state.plan.turns[state.turn]
        state.turn += 1
        new = (
            [tool for tool in offers_of(self.agent, state.plan.doc) if tool.name in turn.tools] if self.as_text else []
        )
        state.take_user("\n\n".join(part for part in (listed(new) if new else "", turn.say) if part))
        return self._go_on(requests)

    # -- what comes next -------------------------------------------------------------------------------------------------

    def _go_on(self, requests: DocRequests) -> list[Instance]:
        return self._end(requests) if requests.state.ended else [self._ask(requests)]

    def _ask(self, requests: DocRequests) -> Instance:
        state: TrajectoryState = requests.state
        settings = dict(state.plan.settings)
        if "tools" in settings:
            settings["tools"] = state.offers
        context = self._context_of(state.conversation, settings, state.plan.options)
        instance = Instance("generate_until", requests.doc, (context, settings), 0, target=requests.target)
        instance.draw = state.draw
        return instance

    def _tool_call(self, requests: DocRequests, call: Mapping[str, Any]) -> Instance:
        return Instance("tool_call", requests.doc, (call,), 0, role="tool", draw=requests.state.draw)

    def _end(self, requests: DocRequests) -> list[Instance]:
        """What the tools leave behind is the last thing that is requested."""
        return [self._tool_call(requests, END)]

    def _ask_user(self, requests: DocRequests) -> Instance:
        state, user = requests.state, self.agent.user
        assert user is not None
        said = [{"role": each.role, "content": context_text(each.content)} for each in state.conversation]
        history = [each for each in said if each["role"] in ("user", "assistant") and each["content"]]
        prompt = self._user_template.render({**requests.doc, "history": history})
        settings = {"until": [], "do_sample": False, "temperature": 0.0, "max_gen_toks": user.max_gen_toks}
        return Instance("generate_until", requests.doc, (prompt, settings), 0, role=user.role, draw=state.draw)

    @cached_property
    def _user_template(self) -> Template:
        assert self.agent.user is not None
        assert self.agent.user.template is not None
        return compile_template(self.agent.user.template)
