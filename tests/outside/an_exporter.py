"""Scores as one line a task."""


def write(run, folder):
    path = folder / "scores.txt"
    lines = [
        f"{name} {key} {score.estimate.value}"
        for name, task in run.result.tasks.items()
        for key, score in task.scores.items()
    ]
    path.write_text("\n".join(lines))
    return [path]
