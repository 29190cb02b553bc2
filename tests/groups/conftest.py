"""Makes `parts` importable: test folders are no packages here."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
