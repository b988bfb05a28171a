"""No kernel reads outside its arrays: all laws once more, with numba's bounds checks on."""

import os
import subprocess
import sys

import pytest

from tests.synopses.plain_python import ROOT

# All laws; stored bytes of every format; and of kernels outside the synopses those over records.
LAWS = [
    *("synopses", "golden", "kafka/test_fetches.py"),
    *("engine/decoding/test_readers.py", "engine/emissions/test_number_texts.py"),
]


@pytest.mark.long
@pytest.mark.timeout(2_700)
def test_no_kernel_reads_outside_its_arrays() -> None:
    """A kernel that does raises IndexError; units with checks are units of their own. Each law has
    a sample of its cases, as all of them take half an hour. What runs kernels as plain Python,
    which checks all the same, is left out.
    """
    laws = [str(ROOT / "tests" / law) for law in LAWS]
    sample = ["-p", "tests.sampled", "-m", "not long", "-k", "not plain_python", "--timeout", "900"]
    environment = {name: it for name, it in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        # Beside it run tests with limits of time: they go first.
        ["nice", "-n", "10", sys.executable, "-m", "pytest", "-q", "-n", "2", *sample, *laws],
        cwd=ROOT,
        env=environment | {"NUMBA_BOUNDSCHECK": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3_000:]
