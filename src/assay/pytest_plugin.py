"""`def test_quality(assay_gate): assay_gate()`: the rules of `assay.yaml` as a test.

pytest loads this module at every start, so it imports nothing of Assay before the fixture is used.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from assay.analyses.gate import GateReport


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("assay")
    group.addoption("--assay-file", default="assay.yaml", help="The file with the rules that `assay_gate` checks.")
    group.addoption(
        "--assay-cannot-tell",
        choices=["pass", "fail", "skip"],
        help="What happens to a test if a rule is undecided: by default what the file says, or else skip.",
    )


@pytest.fixture
def assay_gate(request: pytest.FixtureRequest) -> Callable[..., GateReport]:
    """Decide the rules of a file: fails with the rules that do not hold, skips where the budget cannot tell.

    `assay_gate("other.yaml", docs=100)` names another file and another budget; the report is returned.
    """

    def decide(file: str | Path | None = None, **budget: Any) -> GateReport:
        from assay.analyses.ci import joined, plan_ci, run_ci
        from assay.config import Budget, load_ci
        from assay.errors import AssayError
        from assay.run import Quiet

        path = request.config.rootpath / (file or request.config.getoption("--assay-file"))
        try:
            config = load_ci(path)
            limits = Budget(**{**config.budget.model_dump(), **budget})
            plan = plan_ci(config.model_copy(update={"budget": limits}), path)
            report = joined(run_ci(plan, progress=lambda: nullcontext(Quiet()), notify=lambda text: None))
        except AssayError as error:  # says what to do; where in Assay it was found helps nobody
            pytest.fail(str(error), pytrace=False)
        lines = "\n".join(f"{check.line()}  [{check.rule}]" for check in report.checks if check.outcome != "passed")
        undecided = request.config.getoption("--assay-cannot-tell") or config.cannot_tell or "skip"
        if report.outcome == "failed" or (report.outcome == "cannot tell" and undecided == "fail"):
            pytest.fail(lines, pytrace=False)
        if report.outcome == "cannot tell" and undecided == "skip":
            pytest.skip(lines)
        return report

    return decide
