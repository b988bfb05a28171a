"""Compiled or not, a kernel is the same; and a synopsis needs nothing of Kafka."""

import hashlib
import sys

import numpy as np
from numba.core import types
from numba.core.dispatcher import Dispatcher

from slidestat.synopses import (
    Batch,
    CountParameters,
    Parameters,
    SumParameters,
    SynopsisError,
    run_batch,
)
from slidestat.synopses.exponential_histogram.units import ceil_quotient, floor_quotient, to_units
from tests.synopses.plain_python import as_plain_python, in_another_process
from tests.synopses.streams import TIMES, VALUES


def digest() -> str:
    """Everything that kernels return for all named streams, all kinds and some errors, as one."""
    seen = hashlib.sha256()
    rng = np.random.default_rng(9)
    for time_name in TIMES:
        for value_name in VALUES:
            times, values = TIMES[time_name](rng, 120), VALUES[value_name](rng, 120)
            queries = np.repeat(times[10::20] + 1, 2)
            for parameters, what in (
                (CountParameters(0.1, 300), None),
                (SumParameters(0.05, 300), values),
            ):
                state: bytes | None = None
                for cut in (slice(0, 50), slice(50, 120)):
                    mine = None if what is None else what[cut]
                    asked = queries[queries > times[cut][0]]
                    result = run_batch(
                        parameters,
                        [state, None],
                        Batch(
                            [0, len(times[cut]), len(times[cut])],
                            times[cut],
                            mine,
                            [0, len(asked), len(asked)],
                            asked,
                            [1, 20, 300],
                        ),
                    )
                    state = result.states[0]
                    for part in (result.estimates, result.lowers, result.uppers):
                        seen.update(part.tobytes())
                    seen.update(b"".join(result.states))
    huge = SumParameters(0.1, 50, 0)
    times, values = np.arange(1_200), np.full(1_200, 2.0**53)
    seen.update(run_batch(huge, [None], Batch([0, 1_200], times, values, [0, 0], [], [])).states[0])
    for units in [*range(200), *(2**k + d for k in range(20, 62, 3) for d in (-1, 0, 1))]:
        for scale in (1, 10, 1_000, 10**9):
            seen.update(repr((float(floor_quotient(units, scale)),)).encode())
            seen.update(repr((float(ceil_quotient(units, scale)),)).encode())
    for value in (0.1, 1 / 3, 2.5, 1e-300, 9e12, -1.0, float("nan"), float("inf"), 1e308):
        whole, part, exact = to_units(value, 1_000)
        seen.update(repr((int(whole), int(part), bool(exact))).encode())
    refused: list[tuple[Parameters, list[float] | None]] = [
        (CountParameters(0.1, 9), None),
        (SumParameters(0.1, 9), [1.0, 2.0]),
    ]
    for parameters, what in refused:
        for state in (None, b"", b"\xa7S\1\1", b"\xa7S\2\1aaaa", b"x" * 30):
            for column in ([2, 1], [2**62, 2**62], [1, 2]):
                try:
                    run_batch(parameters, [state], Batch([0, 2], column, what, [0, 1], [0], [1]))
                except SynopsisError as error:
                    seen.update(str(error).encode())
    return seen.hexdigest()


def test_plain_python_gives_the_same_bytes_and_figures() -> None:
    """With NUMBA_DISABLE_JIT=1: the same states, answers to the last bit, and errors."""
    assert as_plain_python("tests.kernels.test_kernels_as_plain_python") == digest()


def test_synopses_need_no_kafka_no_faust_and_no_spark() -> None:
    """Importing the package brings in none of them, and of other rooms nothing but the faces."""
    code = "import sys, slidestat.synopses; print(*sys.modules)"
    modules = set(in_another_process(code).split())
    assert "slidestat.synopses" in modules
    for unwanted in ("faust", "mode", "confluent_kafka", "aiokafka", "pyspark", "rocksdict"):
        assert unwanted not in modules
    others = {
        name
        for name in modules
        if name.startswith("slidestat.") and not name.startswith("slidestat.synopses")
    }
    # They load each name of a face at its first use.
    assert others == {"slidestat.faces"}


def test_no_constant_has_machine_code_of_its_own() -> None:
    """numba would compile a callee anew for each constant that a kernel calls it with."""
    digest()
    kernels = [
        one
        for name, module in [*sys.modules.items()]
        if name.startswith("slidestat.synopses.")
        for one in vars(module).values()
        if isinstance(one, Dispatcher)
    ]
    arguments = [kind for one in kernels for signature in one.signatures for kind in signature]
    assert arguments
    assert not [kind for kind in arguments if isinstance(kind, types.Literal)]
