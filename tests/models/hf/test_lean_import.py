"""What is kept away while transformers is imported is missed by no model, and is there for whoever asks for it.

`make test` holds every 46th family, `make test-wide` all of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.models.hf.conftest import make_tokenizer
from tests.models.hf.families import FAMILIES, build

PROGRAM = """
import json, os, sys
import torch
from assay.instance import Instance
from assay.models import load_model

torch.set_num_threads(1)
PAIRS = [("Question: Which animal lays eggs? Answer:", end) for end in (" the hen", " a spider with eight legs", " x")]
HEAVY = ("torch._dynamo", "torch.distributed.tensor", "torch.distributed.fsdp", "scipy.optimize")

def answers(directory):
    model = load_model("hf", {"pretrained": directory, "threads": 1})
    asked = [Instance("loglikelihood", {}, pair, 0) for pair in PAIRS]
    said = sorted(model.stream("loglikelihood", asked, [0] * len(asked)))
    more = [Instance("generate_until", {}, (PAIRS[0][0], {"until": [], "max_gen_toks": 6}), 0)]
    said += model.stream("generate_until", more, [0])
    there = [name for name in HEAVY if name in sys.modules]
    return {"way": model.check.way, "answers": [answer.answer for _, answer in said], "heavy": there}

for directory in sys.argv[1:]:
    if not os.fork():  # each model is the first of its process
        try:
            found = answers(directory)
        except Exception as error:  # then it has to be the same one whatever is imported
            found = {"way": repr(error), "answers": None, "heavy": []}
        print(json.dumps(found), flush=True)
        os._exit(0)
    os.wait()
"""


def run(program: str, *arguments: str, **variables: str) -> str:
    kept = {name: value for name, value in os.environ.items() if name != "ASSAY_LEAN_IMPORTS"}
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, env={**kept, **variables}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def answers(directories: list[Path], home: Path, *, lean: bool) -> list[dict[str, Any]]:
    said = run(PROGRAM, *map(str, directories), ASSAY_LEAN_IMPORTS=str(int(lean)), ASSAY_HOME=str(home))
    found = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert len(found) == len(directories)
    return found


def saved(name: str, place: Path) -> Path:
    directory = place / name
    build(name, vocab_size=512).save_pretrained(directory)
    make_tokenizer().save_pretrained(directory)
    return directory


FEW = list(FAMILIES)[::46]


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(FEW, id="some"),
        pytest.param([name for name in FAMILIES if name not in FEW], id="others", marks=pytest.mark.wide),
    ],
)
def test_a_model_answers_the_same_with_less_imported(names: list[str], tmp_path: Path) -> None:
    directories = [saved(name, tmp_path) for name in names]
    lean = answers(directories, tmp_path / "lean", lean=True)
    whole = answers(directories, tmp_path / "whole", lean=False)
    for name, less, all_ in zip(names, lean, whole):
        assert less["answers"] == all_["answers"], name
        assert less["way"] == all_["way"], name
    assert all("torch._dynamo" in found["heavy"] for found in whole if found["answers"] is not None)
    # Families with experts or states ask for more than decorators, and get it; most ask for nothing.
    heavy = [name for name, found in zip(names, lean) if found["heavy"]]
    assert "llama" not in heavy
    assert len(heavy) <= len(names) / 2, heavy


def inside(*bodies: str, **variables: str) -> list[str]:
    """What each of some programs prints where imports are lean."""
    program = """
import os, sys, torch
from assay.models.hf.lean_import import lean_imports
for body in sys.argv[1:]:
    if not os.fork():
        with lean_imports():
            exec(body, {"sys": sys, "torch": torch})
        sys.stdout.flush()
        os._exit(0)
    os.wait()
"""
    return run(program, *bodies, **{"ASSAY_LEAN_IMPORTS": "1", **variables}).splitlines()


def test_decorators_of_the_compiler_leave_a_function_as_it_is() -> None:
    body = """
def f(x): return x + 1
marked = [torch.compiler.disable(f), torch.compiler.disable(recursive=False)(f), torch._dynamo.allow_in_graph(f)]
print([each is f for each in marked], hasattr(torch._dynamo, "__file__"))
"""
    assert inside(body) == ["[True, True, True] False"]


def test_whatever_else_is_asked_of_them_is_the_real_thing() -> None:
    said = inside(
        "print(torch._dynamo.is_compiling())",
        "from torch._dynamo import is_compiling; print(is_compiling())",
        "import torch._dynamo.config as c; print(c is torch._dynamo.config, c.__name__)",
        "from scipy.optimize import minimize; print(round(minimize(lambda x: (x - 3) ** 2, 0.0).x[0], 2))",
        "import scipy.optimize._linesearch as s; print(s.__name__, s is sys.modules[s.__name__])",
        "import scipy.optimize; print(scipy.optimize.minimize.__module__)",
    )
    assert said == [
        "False",
        "False",
        "True torch._dynamo.config",
        "3.0",
        "scipy.optimize._linesearch True",
        "scipy.optimize._minimize",
    ]


def test_a_function_that_was_put_off_is_the_real_one_when_it_is_called() -> None:
    body = """
from scipy.optimize import linear_sum_assignment
before = type(sys.modules["scipy.optimize"]).__name__
print(before, linear_sum_assignment([[4, 1], [2, 3]])[1].tolist())
"""
    assert inside(body) == ["_StandIn [1, 0]"]


def test_afterwards_all_is_as_torch_has_it() -> None:
    program = """
from assay.models.hf.lean_import import lean_imports
import torch
with lean_imports():
    from transformers.models.llama.modeling_llama import LlamaForCausalLM
    inside = torch.distributed.is_available()
double = torch.compile(lambda x: 2 * x, backend="eager")
print(inside, torch.distributed.is_available(), double(torch.tensor(21)).item())
"""
    assert run(program, ASSAY_LEAN_IMPORTS="1").strip() == "False True 42"


@pytest.mark.parametrize("variables", [{"ASSAY_LEAN_IMPORTS": "0"}, {"WORLD_SIZE": "2"}, {"LOCAL_RANK": "0"}])
def test_nothing_is_kept_away_where_it_was_declined_or_processes_work_together(variables: dict[str, str]) -> None:
    assert inside("print(torch.distributed.is_available())", **variables) == ["True"]


def test_nor_where_somebody_imported_transformers_before() -> None:
    program = "import transformers, torch.distributed as d\nfrom assay.models.hf.lean_import import lean_imports\n"
    program += "with lean_imports(): print(d.is_available())"
    assert run(program, ASSAY_LEAN_IMPORTS="1").strip() == "True"


def test_the_command_asks_for_it_and_a_caller_of_the_library_does_not(tmp_path: Path) -> None:
    program = "import os, assay; print(os.environ.get('ASSAY_LEAN_IMPORTS'))"
    assert run(program).strip() == "None"
    program = """
import atexit, os, sys
from assay.cli import main
atexit.register(lambda: print(os.environ["ASSAY_LEAN_IMPORTS"]))
sys.argv = ["assay", "--version"]
main()
"""
    assert run(program).split()[-1] == "1"
