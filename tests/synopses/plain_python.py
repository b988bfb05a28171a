"""What a test module computes, in another process: with kernels that are not compiled, or alone."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def in_another_process(code: str, **environment: str) -> str:
    """What code prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def as_plain_python(module: str) -> str:
    """The `digest()` of a module whose kernels are plain Python."""
    code = f"from {module} import digest; print(digest())"
    return in_another_process(code, NUMBA_DISABLE_JIT="1")
