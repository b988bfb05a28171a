"""The README's example of a unit test, as a reader would run it."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_example_passes(tmp_path: Path) -> None:
    """Its topology and its test, each in the file that the README names, pass under pytest."""
    readme = (ROOT / "README.md").read_text()
    topology, test = re.findall(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    (tmp_path / "latency.py").write_text(topology)
    (tmp_path / "test_latency.py").write_text(test)
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:asyncio", "test_latency.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "1 passed" in run.stdout
