"""Both readers of records are one: on every input kernels and msgspec give the same."""

import base64
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import numpy as np
import pytest

from slidestat.declare.statistics import Count, Distinct, Maximum, Mean, Sum, TopItems
from slidestat.declare.topology import Topology
from slidestat.engine.decoding.binary_column import BinaryColumn
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.decoding.event_columns import EventColumns, FieldColumns
from slidestat.engine.decoding.scan_reader import ScanPlan, ScanReader
from slidestat.engine.decoding.struct_reader import StructReader
from slidestat.schemas.dead_letter import Reason
from tests.engine.json_records import records

# Of each topology: together more than 50,000, and a million with RECORDS=70000, as each night.
RECORDS = int(os.environ.get("RECORDS", "2500"))
BATCH = 5_000
ROOT = Path(__file__).parents[3]
SUITE_LINES = (ROOT / "tests/engine/decoding/json_test_suite/test_parsing.jsonl").read_text("utf-8")
SUITE = {
    "n_structure_100000_opening_arrays.json": b"[" * 100_000,
    "n_structure_open_array_object.json": b'[{"":' * 50_000,
    **{
        line["name"]: base64.b64decode(line["base64"])
        for line in map(json.loads, SUITE_LINES.splitlines())
    },
}


def topology(**declared: object) -> Topology:
    return Topology(
        **{
            "name": "t",
            "source": "s",
            "span": "1h",
            "every": "1m",
            "statistics": [Sum()],
            **declared,
        }  # type: ignore[arg-type]
    )


TOPOLOGIES = {
    "a sum": topology(),
    "a count": topology(statistics=[Count()]),
    "a mean": topology(statistics=[Sum(), Mean()]),
    "of any number": topology(statistics=[Maximum(), Mean(field="in.n")]),
    "items": topology(statistics=[Distinct(field="user"), TopItems(field="in.x"), Count()]),
    "an item that is a number": topology(statistics=[Distinct(field="value"), Sum()]),
    "an item that is the key": topology(statistics=[Distinct(field="key"), Sum(field="größe")]),
    "seconds": topology(time_format="s"),
    "microseconds": topology(time_format="us", statistics=[Count()]),
    "texts of times": topology(time_format="iso8601", statistics=[Count()]),
    "texts of times in UTC": topology(time_format="iso8601-utc"),
    "nanoseconds": topology(time_format="ns", value_field="in.n"),
    "a sequence": topology(
        time_format="sequence", lateness="0 events", span="1000 events", every="10 events"
    ),
    "the record's own": topology(key_field="kafka:key", time_field="kafka:timestamp"),
    "nested": topology(key_field="in.x", statistics=[Sum(field="in.n"), Count()]),
    "conditions": topology(
        where="ok or user is not null or value > 5",
        statistics=[
            Count(),
            Sum(name="of-u", where="user like 'u%'"),
            Maximum(name="m", where="in.n = 3", field="größe"),
        ],
    ),
    "a field of two sorts": topology(
        where="user is not null and user <> 'u1'",
        statistics=[
            Distinct(field="user", name="d", where="value >= 1"),
            Count(name="c", where="key = 'k1'"),
        ],
    ),
    "computed": topology(
        computed=(
            "coalesce(user, 'nobody') || '/' || lower(key) as who",
            "value / in.n as ratio",
            "größe * 2 as double",
        ),
        key_field="who",
        statistics=[
            Mean(field="ratio", name="r", where="in.n <> 0"),
            Distinct(field="double"),
            Sum(),
        ],
    ),
    "casts": topology(
        where="try_cast(user as double) is null or cast(user as double) < 1e9",
        computed=(
            "cast(value as double) as number",
            "try_cast(in.x as bigint) as whole",
            "cast(größe as varchar) as size",
            "try_cast(user as timestamp) as at",
        ),
        statistics=[
            Mean(field="number", name="n", where="in.x is null or try_cast(in.x as double) < 5"),
            Maximum(field="whole", name="w"),
            Distinct(field="size"),
            Maximum(field="at", name="a"),
            Count(),
        ],
    ),
    "tombstones as letters": topology(tombstones="dead-letter"),
    "whole partitions": topology(publish="partition"),
}


def written(declared: Topology) -> Callable[[int], object]:
    """How a topology's times are written; a sequence has smaller ones."""
    times = declared.times
    if times.is_text:
        return lambda ms: json.dumps(times.written(ms))
    return lambda ms: times.written(ms % times.latest if times.is_sequence else ms)


class Counting(StructReader):
    """Counts the records that are left to it."""

    left = 0

    def read(self, records: Sequence[bytes | None]) -> FieldColumns:
        self.left += len(records)
        return super().read(records)


class Kernels(ScanReader):
    """Reads also the smallest batches."""

    FEWEST = 0


def plain(columns: EventColumns) -> list[object]:
    """All that there is, comparable; numbers to the last bit."""
    passed_over = sorted(
        zip(columns.passed_over.tolist(), columns.passed_over_times.tolist(), strict=True)
    )
    return [
        columns.rows.tolist(),
        columns.keys.to_pylist(),
        columns.times.tolist(),
        [np.where(np.isnan(c), np.nan, c).tobytes() for c in columns.numbers],
        [column.to_pylist() for column in columns.items],
        [(refusal.row, refusal.reason, refusal.detail) for refusal in columns.refusals],
        [column.tolist() for column in columns.conditions],
        passed_over,
    ]


def check_alike(declared: Topology, batch: Sequence[bytes | None]) -> int:
    """Both readers give the same columns, kernels of a fetch's, msgspec of lists; return how many
    records kernels left to msgspec.
    """
    plan = ScanPlan.of(declared)
    assert plan is not None
    counting = Counting(declared)
    keys = [None if i % 97 == 0 else b"k%d" % (i % 5) for i in range(len(batch))]
    timestamps = [1_600_000_000_000 + i for i in range(len(batch))]
    by_kernels = EventDecoder(declared, Kernels(declared, plan, counting)).decode(
        BinaryColumn.of(batch), BinaryColumn.of(keys), np.array(timestamps)
    )
    by_msgspec = EventDecoder(declared, StructReader(declared)).decode(batch, keys, timestamps)
    if plain(by_kernels) != plain(by_msgspec):
        for record in batch:  # The first that differs says more than a list of thousands.
            assert plain(
                EventDecoder(declared, Kernels(declared, plan, counting)).decode(
                    [record], [b"k"], [1_600_000_000_000]
                )
            ) == plain(
                EventDecoder(declared, StructReader(declared)).decode(
                    [record], [b"k"], [1_600_000_000_000]
                )
            ), record
        assert plain(by_kernels) == plain(by_msgspec)
    return counting.left


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_kernels_and_msgspec_read_the_same(name: str) -> None:
    """Of thousands of records, right ones, odd ones and damaged ones; and kernels read most of
    those that are right.
    """
    random, declared = Random(name), TOPOLOGIES[name]
    for start in range(0, RECORDS, BATCH):
        batch = list(records(random, min(BATCH, RECORDS - start), written(declared)))
        left = check_alike(declared, batch)
        assert left < 0.9 * len(batch)


@pytest.mark.parametrize("name", ["a sum", "items", "conditions", "a field of two sorts"])
def test_both_read_the_same_of_a_conformance_suite(name: str) -> None:
    """Each document as a record, as a field that nobody reads, and as each one that is read."""
    places = [
        b"%b",
        b'{"key":"k","time":1600000000000,"value":1,"user":"u","more":%b}',
        b'{"key":%b,"time":1600000000000,"value":1,"user":"u"}',
        b'{"key":"k","time":%b,"value":1,"user":"u"}',
        b'{"key":"k","time":1600000000000,"value":%b,"user":"u"}',
        b'{"key":"k","time":1600000000000,"value":1,"user":%b}',
        b'{"key":"k","time":1600000000000,"value":1,"user":"u","in":%b}',
        b'{"key":"k","time":1600000000000,"value":1,"user":"u","in":{"n":%b}}',
        b'{"key":"k","time":1600000000000,"value":1,"user":"u"%b}',
    ]
    check_alike(
        TOPOLOGIES[name], [place % document for place in places for document in SUITE.values()]
    )


def test_a_conformance_suite_is_passed() -> None:
    """As a field that nobody reads: what must be accepted is, and what must be refused is.

    But for bytes that are no UTF-8, which msgspec does not look at there.
    """
    declared = TOPOLOGIES["a count"]
    plan = ScanPlan.of(declared)
    assert plan is not None
    columns = EventDecoder(declared, Kernels(declared, plan, StructReader(declared))).decode(
        [b'{"key":"k","time":1600000000000,"more":%b}' % document for document in SUITE.values()]
    )
    names = list(SUITE)
    accepted = {names[row] for row in columns.rows.tolist()}
    assert {name for name in names if name.startswith("y_")} <= accepted
    assert {name for name in accepted if name.startswith("n_")} <= {
        name for name, document in SUITE.items() if not _is_utf8(document)
    }
    assert {refusal.reason for refusal in columns.refusals} == {Reason.NOT_JSON}


@pytest.mark.parametrize("batch", [[], [None] * 3, [b""] * 200, [None, b"{}", b"", b" "] * 50])
def test_batches_of_nothing_are_read_alike(batch: list[bytes | None]) -> None:
    """Also those in which no record has a byte."""
    for declared in TOPOLOGIES.values():
        check_alike(declared, batch)


def _is_utf8(document: bytes) -> bool:
    try:
        document.decode()
    except UnicodeDecodeError:
        return False
    return True


def test_kernels_as_plain_python_read_the_same() -> None:
    """With NUMBA_DISABLE_JIT=1, of a few hundred records."""
    code = "from tests.engine.decoding.test_readers import check_few; check_few()"
    subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(ROOT / "app"), str(ROOT))),
            "NUMBA_DISABLE_JIT": "1",
        },
        check=True,
    )


def check_few() -> None:
    """Check some records of each topology."""
    for name, declared in TOPOLOGIES.items():
        check_alike(declared, list(records(Random(name), 40, written(declared))))
