"""How fast, and against what: see README.md beside this file."""

from pathlib import Path

FOLDER = Path(__file__).parent
REPOSITORY = FOLDER.parent
RESULTS_FOLDER = FOLDER / "results"
