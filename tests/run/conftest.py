"""What starts `assay` in other processes, made once."""

from collections.abc import Iterator

import pytest
from tests.run.launching import Launcher


@pytest.fixture(scope="session")
def launcher() -> Iterator[Launcher]:
    found = Launcher()
    yield found
    found.close()
