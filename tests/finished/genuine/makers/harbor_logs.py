"""Jobs that Harbor itself writes: `python harbor_logs.py FOLDER`, in an environment that has `harbor`.

Its tasks run in containers; here an environment of our own runs their commands in a plain directory, which is all that this
agent and these tests need. Trials, verification, retries and every file are Harbor's.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path

from harbor.agents.base import BaseAgent
from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.job import Job
from harbor.models.job.config import JobConfig
from harbor.models.trajectories.agent import Agent
from harbor.models.trajectories.final_metrics import FinalMetrics
from harbor.models.trajectories.observation import Observation
from harbor.models.trajectories.observation_result import ObservationResult
from harbor.models.trajectories.step import Step
from harbor.models.trajectories.tool_call import ToolCall
from harbor.models.trajectories.trajectory import Trajectory
from harbor.models.trial.config import AgentConfig, EnvironmentConfig, TaskConfig

GOOD, BAD = [1, 1, 1, 0] * 6, [0, 1, 0, 0] * 6
PLACES = ("/logs", "/tests", "/solution", "/app")


class PlainDirectory(BaseEnvironment):
    """Commands in a directory of this machine, with the container's places below it."""

    @staticmethod
    def type():
        return "plain"

    def _validate_definition(self):
        pass

    @property
    def root(self):
        return Path(self.trial_paths.trial_dir) / "root"

    def _place(self, path):
        path = str(path)
        return (
            Path(self.trial_paths.trial_dir) / path.removeprefix("/logs/")
            if path.startswith("/logs/")
            else self.root / path.lstrip("/")
        )

    async def start(self, force_build):
        (self.root / "app").mkdir(parents=True)

    async def stop(self, delete):
        shutil.rmtree(self.root, ignore_errors=True)

    async def upload_file(self, source_path, target_path):
        self._place(target_path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source_path, self._place(target_path))

    async def upload_dir(self, source_dir, target_dir):
        if self._place(target_dir).resolve() != Path(source_dir).resolve():
            shutil.copytree(source_dir, self._place(target_dir), dirs_exist_ok=True)

    async def download_file(self, source_path, target_path):
        if self._place(source_path) != Path(target_path):
            shutil.copy(self._place(source_path), target_path)

    async def download_dir(self, source_dir, target_dir):
        if self._place(source_dir).resolve() != Path(target_dir).resolve():
            shutil.copytree(self._place(source_dir), target_dir, dirs_exist_ok=True)

    async def exec(self, command, cwd=None, env=None, timeout_sec=None, **_):
        for place in PLACES:
            command = command.replace(place, str(self._place(place + "/")).rstrip("/"))
        done = await asyncio.create_subprocess_shell(
            command,
            cwd=self.root / "app",
            env={"LOGS": str(self.trial_paths.trial_dir), "PATH": "/usr/bin:/bin"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await done.communicate()
        return ExecResult(stdout=out.decode(), stderr=err.decode(), return_code=done.returncode)


class Scripted(BaseAgent):
    """Writes the right number into a file for the tasks that it can do; on some it breaks."""

    def __init__(self, *args, skill="", breaks=(), **kwargs):
        super().__init__(*args, **kwargs)
        self.skill, self.breaks = skill, set(breaks)

    @staticmethod
    def name():
        return "scripted"

    def version(self):
        return "1.0"

    async def setup(self, environment):
        pass

    async def run(self, instruction, environment, context):
        number = int(instruction.split()[2])
        if number in self.breaks:
            raise RuntimeError("the agent could not be reached")
        can = (GOOD if self.skill == "good" else BAD)[number - 1]
        answer = 2 * number if can else 2 * number + 1
        await environment.exec(f"echo {answer} > answer.txt")
        call = ToolCall(tool_call_id="c1", function_name="write", arguments={"text": str(answer)})
        seen = Observation(results=[ObservationResult(source_call_id="c1", content="written")])
        steps = [
            Step(step_id=1, source="user", message=instruction),
            Step(step_id=2, source="agent", message="I write the sum.", tool_calls=[call], observation=seen),
            Step(step_id=3, source="agent", message=f"It is {answer}."),
        ]
        metrics = FinalMetrics(
            total_prompt_tokens=100 + number, total_completion_tokens=10, total_cost_usd=0.001 * number, total_steps=3
        )
        told = Trajectory(
            session_id=f"s{number}",
            agent=Agent(name="scripted", version="1.0", model_name="m"),
            steps=steps,
            final_metrics=metrics,
        )
        (self.logs_dir / "trajectory.json").write_text(told.model_dump_json(exclude_none=True))
        context.n_input_tokens, context.n_output_tokens, context.cost_usd = 100 + number, 10, 0.001 * number


def write_tasks(folder, count):
    for number in range(1, count + 1):
        task = folder / f"sum-{number:02d}"
        (task / "environment").mkdir(parents=True)
        (task / "tests").mkdir()
        (task / "environment/Dockerfile").write_text("FROM scratch\n")
        (task / "instruction.md").write_text(f"What is {number} + {number}? Write it to /app/answer.txt")
        (task / "task.toml").write_text(
            'version = "1.0"\n[metadata]\n[verifier]\ntimeout_sec = 60.0\n[agent]\ntimeout_sec = 60.0\n[environment]\n'
        )
        test = f'if [ "$(cat answer.txt)" = "{2 * number}" ]; then echo 1 > $LOGS/verifier/reward.txt; else echo 0 > $LOGS/verifier/reward.txt; fi\n'
        (task / "tests/test.sh").write_text("#!/bin/bash\n" + test)
        (task / "tests/test.sh").chmod(0o755)


async def job(tasks, jobs, name, attempts=1, **skills):
    here = Path(__file__).stem
    config = JobConfig(
        job_name=name,
        jobs_dir=jobs,
        n_attempts=attempts,
        quiet=True,
        environment=EnvironmentConfig(import_path=f"{here}:PlainDirectory"),
        agents=[AgentConfig(import_path=f"{here}:Scripted", model_name="m", kwargs=skills)],
        tasks=[TaskConfig(path=path) for path in sorted(tasks.iterdir())],
    )
    await (await Job.create(config)).run()


def main(folder):
    tasks = folder.parent / "sums"
    shutil.rmtree(tasks, ignore_errors=True)
    write_tasks(tasks, 24)
    asyncio.run(job(tasks, folder, "good", skill="good"))
    asyncio.run(job(tasks, folder, "bad", skill="bad"))
    for path in sorted(tasks.iterdir())[4:]:
        shutil.rmtree(path)
    asyncio.run(job(tasks, folder, "attempts", attempts=2, skill="good", breaks=[2]))
    # Logs and locks are long, and nobody reads them.
    for place in [*folder.glob("*/*/artifacts"), *folder.glob("*/*/verifier")]:
        shutil.rmtree(place)
    for file in [*folder.glob("*/*"), *folder.glob("*/*/*")]:
        if file.is_file() and file.name not in ("result.json", "config.json"):
            file.unlink()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main(Path(sys.argv[1]))
