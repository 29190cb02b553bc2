"""Records that Every Eval Ever itself writes: `python eee_logs.py FOLDER`, in an environment that has `every-eval-ever` and
`inspect-ai`. Its converter makes them from logs of inspect; it wants a model whose developer can be told by its name."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from inspect_ai import Epochs, Task, eval
from inspect_ai.log import write_eval_log
from inspect_ai.model import get_model
from inspect_ai.scorer import match
from inspect_ai.solver import generate
from inspect_logs import BAD, GOOD, SUMS, answers, loops


def convert(folder, name, task, model):
    (log,) = eval(task, model=get_model("mockllm/model", custom_outputs=model), log_dir=f"logs/{name}", display="none")
    log.eval.model = "hf/acme/scripted"
    file = f"logs/{name}.json"
    write_eval_log(log, file)
    command = [str(Path(sys.executable).parent / "every_eval_ever"), "convert", "inspect", "--log_path", file]
    said = ["--source_organization_name", "nobody", "--evaluator_relationship", "other"]
    subprocess.run([*command, "--output_dir", str(folder / name / "data"), *said], check=True)


def main(folder):
    single = {"dataset": SUMS, "solver": generate(), "scorer": match(numeric=True), "name": "sums"}
    convert(folder, "good", Task(**single), answers(lambda n, t: GOOD[n - 1]))
    convert(folder, "bad", Task(**single), answers(lambda n, t: BAD[n - 1]))
    few = {"dataset": SUMS[:6], "scorer": match(numeric=True)}
    convert(
        folder,
        "epochs",
        Task(**few, solver=generate(), name="sums", epochs=Epochs(3, "mean")),
        answers(lambda n, t: (n + t) % 3 != 0),
    )
    convert(folder, "agent", Task(**few, solver=loops(lambda n: n), name="agent"), answers(lambda n, t: n % 6 != 0))
    shutil.rmtree("logs")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
