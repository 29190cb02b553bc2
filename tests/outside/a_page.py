"""A page of the viewer: how many docs each run has."""

from assay.show import Column, Findings, Table, kinds
from assay.show.kinds import Name
from assay.view import AnalysisPage

COLUMNS = (
    Column("run", kinds.NAME, lambda run: Name(run.label)),
    Column("docs in all", kinds.COUNT, lambda run: sum(task.sample_len for task in run.result.tasks.values())),
)


def sizes(runs, query):
    return Findings("Sizes of runs", tables=(Table.of(COLUMNS, runs),))


PAGE = AnalysisPage("Sizes", sizes, least=1)
