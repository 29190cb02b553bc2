"""Logs that inspect itself writes: `python inspect_logs.py FOLDER`, in an environment that has `inspect-ai`."""

from __future__ import annotations

import sys
from pathlib import Path

import tiktoken
from inspect_ai import Epochs, Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.log._recorders.chunked.convert import convert_eval_logs_to_chunked
from inspect_ai.model import (
    ChatMessageAssistant,
    ChatMessageUser,
    ContentImage,
    ContentReasoning,
    ContentText,
    ModelOutput,
    get_model,
)
from inspect_ai.scorer import Score, includes, match, mean, scorer, stderr
from inspect_ai.solver import TaskState, generate, solver, use_tools
from inspect_ai.tool import ToolCall, tool


class Words:
    """In place of a tokenizer that would be fetched: the mock model counts tokens by it."""

    def encode(self, text, **_):
        return text.split()


tiktoken.get_encoding = tiktoken.encoding_for_model = lambda name: Words()
SUMS = [Sample(id=i, input=f"What is {i} + {i}?", target=str(2 * i)) for i in range(1, 25)]
GOOD, BAD = [1, 1, 1, 0] * 6, [0, 1, 0, 0] * 6


def answers(skill):
    """A model that says the sum, or one more where `skill` does not hold for the number and the try."""
    tries = {}

    def answer(messages, tools, tool_choice, config):
        number = int(next(m.text for m in messages if m.role == "user").split()[2])
        tries[number] = tries.get(number, 0) + 1
        said = 2 * number + (0 if skill(number, tries[number]) else 1)
        return ModelOutput.from_content("mockllm/model", f"The answer is {said}")

    return answer


@scorer(metrics={"right": [mean(), stderr()], "length": [mean()]})
def facets():
    async def score(state, target):
        text = state.output.completion
        return Score(value={"right": target.text in text, "length": len(text)}, answer=text.split()[-1])

    return score


@solver
def breaks_on(numbers):
    async def solve(state: TaskState, generate):
        if state.sample_id in numbers:
            raise RuntimeError(f"the sandbox of {state.sample_id} is gone")
        return state

    return solve


@tool
def lookup():
    async def execute(key: str):
        """Look up a number.

        Args:
            key: What to look up.
        """
        return f"{key} is 42"

    return execute


@solver
def loops(steps):
    """Calls the tool `steps(number)` times, then answers: an agent that some limit may stop."""
    from inspect_ai.model import execute_tools

    async def solve(state: TaskState, generate):
        state.tools = [lookup()]
        for step in range(steps(state.sample_id)):
            call = ToolCall(id=f"c{step}", function="lookup", arguments={"key": f"k{step}"})
            state.messages.append(ChatMessageAssistant(content="Let me look.", tool_calls=[call]))
            found = await execute_tools(state.messages, state.tools)
            state.messages.extend(found.messages)
        return await generate(state)

    return solve


DOT = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8Dwn4EIwDiqkL4KAcT9GO0U4BxoAAAAAElFTkSuQmCC"


def looking(keys):
    """A model that looks these up one after the other, the first with a thought, and then answers with the last."""

    def answer(messages, tools, tool_choice, config):
        step = sum(message.role == "assistant" for message in messages)
        if step == len(keys):
            return ModelOutput.from_content("mockllm/model", f"It is {keys[-1]}")
        output = ModelOutput.for_tool_call("mockllm/model", "lookup", {"key": keys[step]})
        if step == 0:
            output.choices[0].message.content = [
                ContentReasoning(reasoning="A dot. What is it called?"),
                ContentText(text="I look it up."),
            ]
        return output

    return answer


def main(folder: Path) -> None:
    def run(task, model, name, called="model", **options):
        logs = eval(
            task,
            model=get_model(f"mockllm/{called}", custom_outputs=model),
            log_dir=str(folder / name),
            display="none",
            **options,
        )
        return logs[0]

    single = {"dataset": SUMS, "solver": generate(), "scorer": match(numeric=True), "name": "sums"}
    run(Task(**single), answers(lambda n, t: GOOD[n - 1]), "good")
    run(Task(**single), answers(lambda n, t: BAD[n - 1]), "bad")
    better, worse = answers(lambda n, t: n % 6 != 0), answers(lambda n, t: (n + t) % 3 != 0)
    twice = {"dataset": SUMS[:6], "solver": generate(), "scorer": [match(numeric=True), facets()], "name": "sums"}
    run(Task(**twice, epochs=Epochs(3, "mean")), better, "epochs_a", "steady")
    run(Task(**twice, epochs=Epochs(3, "mean")), worse, "epochs_b", "shaky")
    run(Task(**twice), answers(lambda n, t: True), "json", log_format="json")
    few = {"dataset": SUMS[:8], "scorer": match(numeric=True), "name": "sums"}
    run(Task(**few, solver=[breaks_on({3, 7}), generate()]), better, "errors", fail_on_error=False)
    run(Task(**few, solver=[breaks_on({5}), generate()]), better, "stopped", fail_on_error=True, max_samples=1)
    agent = Task(dataset=SUMS[:6], solver=loops(lambda n: n), scorer=match(numeric=True), name="agent", message_limit=9)
    run(agent, better, "agent")
    whole = Task(dataset=SUMS[:6], solver=generate(), scorer=match(numeric=True), name="shards")
    for k, ids in enumerate(([1, 2, 3], [4, 5, 6])):
        run(whole, better, f"shards/run.shards/{k}", sample_id=ids)
    log = run(
        Task(dataset=SUMS[:3], solver=loops(lambda n: 2), scorer=match(numeric=True), name="large"), better, "large"
    )
    seen = [
        Sample(
            id=n,
            input=[ChatMessageUser(content=[ContentText(text=f"What is dot {n}?"), ContentImage(image=DOT)])],
            target="blue",
        )
        for n in (1, 2)
    ]
    pictures = Task(dataset=seen, solver=[use_tools(lookup()), generate()], scorer=includes(), name="pictures")
    run(pictures, looking(["red", "green", "blue"]), "looks_on")
    run(pictures, looking(["red", "grey"]), "gives_up")
    # The shape of large samples, by inspect's own converter.
    convert_eval_logs_to_chunked(log.location, str(folder / "parts"), chunk_size=2)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
