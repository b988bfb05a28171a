"""Compiled or not, a wave is the same."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from app.synopses.errors import SynopsisError
from app.synopses.waves.wave_batch import run_wave_batch
from app.synopses.waves.wave_parameters import WaveParameters
from tests.laws.streams import TIMES

ROOT = Path(__file__).parents[2]


def digest() -> str:
    """Everything that kernels return for all named streams, all kinds and some faults, as one."""
    seen = hashlib.sha256()
    rng = np.random.default_rng(9)
    for name in TIMES:
        times, values = TIMES[name](rng, 120), rng.integers(0, 90, 120)
        for kind, what in (("count", None), ("sum", values), ("position", None)):
            state: bytes | None = None
            for cut in (slice(0, 50), slice(50, 120)):
                mine = None if what is None else what[cut]
                queries = np.repeat(times[cut][::20] + 1, 2)
                n = len(times[cut])
                result = run_wave_batch(
                    kind, WaveParameters(0.3, 300), [state, None], [0, n, n], times[cut], mine,
                    [0, len(queries), len(queries)], queries, [1, 20, 300],
                )  # fmt: skip
                state = result.states[0]
                for part in (result.estimates, result.lowers, result.uppers):
                    seen.update(part.tobytes())
                seen.update(b"".join(result.states))
    huge, times = np.full(1_200, 2**53), np.arange(1_200)
    for span in (50, 1_000):
        for state in (None, b"", b"\xa7S\1\1", b"\xa7S\2\4aaaa", b"\xa7S\1\4aaaaaaa", b"x" * 30):
            parameters = WaveParameters(0.3, span)
            try:
                result = run_wave_batch(
                    "sum", parameters, [state], [0, 1_200], times, huge, [0, 1], [1_200], [span]
                )
                seen.update(result.states[0] + result.estimates.tobytes())
            except SynopsisError as error:
                seen.update(str(error).encode())
    return seen.hexdigest()


def test_plain_python_gives_the_same_bytes_and_figures() -> None:
    """With NUMBA_DISABLE_JIT=1: the same states, answers to the last bit, and errors."""
    code = "from tests.laws.test_waves_as_plain_python import digest; print(digest())"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_DISABLE_JIT": "1"},
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == digest()
