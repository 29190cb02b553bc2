"""`--model lm_eval:NAME`: backends of a real lm-evaluation-harness, of both lines, in a process that has it on its path."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.parity.goldens import tasks_directory as older
from tests.parity.test_runs_05 import tasks_directory as newer

from assay.errors import MissingPackage
from assay.models import load_model

RUN = """
import json, sys
import assay
from assay.errors import AssayError

found = assay.evaluate(
    model=sys.argv[1], model_args=json.loads(sys.argv[2]), tasks=["choose", "write", "text"], include_path=sys.argv[3],
    run_dir=sys.argv[3] + "/run", store=sys.argv[3] + "/store.sqlite", include_defaults=False,
)
print(json.dumps({name: task.health.failed for name, task in found.tasks.items()}))
print(found.model["fingerprint"] != "")
"""


def site(line: str) -> Path:
    found = older() if line == "0.4" else newer()
    if found is None:
        pytest.skip(f"no lm-evaluation-harness {line} beside the tests")
    return found.parents[1] if found.name == "tasks" else found


def python(line: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: the package must not come into this one."""
    paths = [str(Path(__file__).parents[3] / "src"), str(site(line))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-W", "ignore", *arguments], capture_output=True, text=True, env=environment, check=False
    )


def write_tasks(folder: Path) -> None:
    rows = [{"q": f"What is {n}?", "choices": ["a", "bb"], "answer": n % 2, "page": "Some words."} for n in range(4)]
    (folder / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    head = f"dataset_path: json\ndataset_kwargs: {{data_files: {{test: {folder / 'docs.jsonl'}}}}}\ntest_split: test\n"
    bodies = {
        "choose": "output_type: multiple_choice\ndoc_to_text: q\ndoc_to_choice: choices\ndoc_to_target: answer\n",
        "write": "output_type: generate_until\ndoc_to_text: q\ndoc_to_target: page\ngeneration_kwargs: {max_gen_toks: 4}\n",
        "text": "output_type: loglikelihood_rolling\ndoc_to_text: ''\ndoc_to_target: page\n",
    }
    for name, body in bodies.items():
        (folder / f"{name}.yaml").write_text(f"task: {name}\n{head}{body}")


@pytest.mark.parametrize("line", ["0.4", "0.5"])
def test_a_backend_answers_every_kind_of_request(line: str, tmp_path: Path) -> None:
    write_tasks(tmp_path)
    (tmp_path / "run.py").write_text(RUN)
    done = python(line, str(tmp_path / "run.py"), "lm_eval:dummy", "{}", str(tmp_path))
    assert done.returncode == 0, done.stderr[-2000:]
    failed, has_fingerprint = done.stdout.strip().splitlines()[-2:]
    assert json.loads(failed) == {"choose": 0, "write": 0, "text": 0}
    assert has_fingerprint == "True"


def test_an_unknown_backend_is_answered_with_the_nearest() -> None:
    done = python("0.5", "-m", "assay", "run", "--model", "lm_eval:dumy", "--tasks", "demo_agreement", "--limit", "1")
    assert done.returncode == 2
    assert "has no model 'dumy'" in done.stderr
    assert "Did you mean dummy?" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_package_of_a_backend_is_named() -> None:
    code = "from assay.models import load_model\nload_model('lm_eval:sglang', {'pretrained': 'x'})"
    done = python("0.4", "-c", code)
    assert "assay.errors.MissingPackage: the model 'lm_eval:sglang'" in done.stderr
    assert "nstall" in done.stderr.splitlines()[-1]


def test_without_lm_evaluation_harness_the_error_says_what_to_install() -> None:
    if any((Path(place) / "lm_eval").is_dir() for place in sys.path):
        pytest.skip("lm-evaluation-harness is installed here")
    with pytest.raises(MissingPackage, match="which is not installed") as error:
        load_model("lm_eval:dummy")
    assert error.value.hint == "pip install lm-eval"
