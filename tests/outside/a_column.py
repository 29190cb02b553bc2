"""Half the width of each interval, as a column of every table of results."""

from assay.show import Column
from assay.show.kinds import NUMBER

HALF_WIDTH = Column("half width", NUMBER, lambda row: row.estimate.half_width)
