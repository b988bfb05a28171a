"""No kernel reads outside its arrays: some laws once more, with numba's bounds checks on."""

import os
import subprocess
import sys

import pytest

from tests.laws.plain_python import ROOT

# Every kernel by its vectors, stored bytes of every format, records of any form, fetched batches.
LAWS = [
    *("laws/test_kernel_units.py", "golden"),
    *("engine/test_readers.py", "engine/test_fetches.py", "engine/test_number_texts.py"),
]


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_no_kernel_reads_outside_its_arrays() -> None:
    """A kernel that does raises IndexError; units with checks are units of their own."""
    laws = [str(ROOT / "tests" / law) for law in LAWS]
    environment = {name: it for name, it in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "2", "-m", "not long", *laws],
        cwd=ROOT,
        env=environment | {"NUMBA_BOUNDSCHECK": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3_000:]
