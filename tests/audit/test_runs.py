"""Runs of events are what they were packed from, and come out of overlapping runs in order."""

from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from slidestat.spark.audit.events.runs import Run, pack, run_columns, unpack
from slidestat.spark.audit.workers import WaitingEvents
from tests.engine.cases import laws

Event = tuple[int, int, str | None, str | None]
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["a", "", "é" * 40]),
        st.integers(-50, 50),
        st.sampled_from([None, "", "x", "日本"]),
        st.sampled_from([None, "1.5"]),
    ),
    max_size=60,
)


def packed(events: list[tuple[str, int, str | None, str | None]], first_place: int) -> pa.Table:
    keys, times, *texts = [list(column) for column in zip(*events, strict=True)] or [[]] * 4
    places = np.arange(first_place, first_place + len(events))
    arrays = [pa.array(column, pa.string()) for column in texts]
    return pa.table(pack(pa.array(keys, pa.string()), np.array(times, np.int64), places, arrays))


def told(run: Run) -> list[Event]:
    columns = [run.times.tolist(), run.places.tolist(), *(c.to_pylist() for c in run.texts)]
    return list(zip(*columns, strict=True))


@laws
@given(EVENTS, st.integers(1, 20), st.integers(1, 5), st.booleans())
def test_runs_of_any_batches_give_all_events_in_order(
    events: list[tuple[str, int, str | None, str | None]], size: int, rows: int, large: bool
) -> None:
    """Packed in batches of any size, sorted by their beginnings as Spark does, and brought in
    pieces: of each key all events come by time and place, those before the next run at once.
    """
    batches = [packed(events[i : i + size], i) for i in range(0, len(events), size)]
    table = pa.concat_tables([*batches, packed([], 0)])
    assert table.column_names == list(run_columns(2))
    expected: dict[str, list[Event]] = defaultdict(list)
    for place, (key, time, *texts) in enumerate(events):
        expected[key].append((time, place, *texts))
    for key, of_key in expected.items():
        own = table.filter(pa.compute.equal(table["event_key"], key)).sort_by("at")
        if large:  # As a cluster may have set it.
            bytes_of = [pa.field(f.name, pa.large_binary()) for f in own.schema][2:]
            own = own.cast(pa.schema([*list(own.schema)[:2], *bytes_of]))
        waiting, found = WaitingEvents(2), []
        for start in range(0, own.num_rows, rows):
            piece = own.slice(start, rows)
            reached = piece["at"][-1].as_py()
            batch = piece.combine_chunks().to_batches()[0]
            given_out = told(waiting.next(unpack(batch, 2), reached))
            assert all(time < reached for time, *_ in given_out)
            found += given_out
        assert found + told(waiting.rest()) == sorted(of_key, key=lambda event: event[:2])
        assert told(waiting.rest()) == []


@pytest.mark.parametrize("run", [True, False])
def test_rows_that_are_no_runs_have_no_events(run: bool) -> None:
    """Emissions lie among them, with nulls in the columns of a run."""
    table = packed([("a", 1, "x", None), ("a", 2, None, "3")], 7)
    nothing = pa.table([pa.nulls(2, field.type) for field in table.schema], table.column_names)
    both = pa.concat_tables([nothing, *([table] if run else []), nothing]).combine_chunks()
    found = told(unpack(both.to_batches()[0].slice(1), 2))
    assert found == ([(1, 7, "x", None), (2, 8, None, "3")] if run else [])
