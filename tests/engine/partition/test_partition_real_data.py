"""Real flights, in the order in which they landed or took off, against the model."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

import msgspec
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from slidestat.declare.statistics import Count, Sum
from slidestat.declare.topology import Topology
from tests.engine.checks import check_emissions, emissions_of, offsets_of
from tests.engine.memory import Partition
from tests.engine.model import Fate, Model, Record

DATA = Path(__file__).parents[4] / "shared" / "data"
LANDINGS = "nyc-flights-2013-by-landing.parquet"
DEPARTURES = "flights-2001-h1.parquet"
ROWS = 20_000
FETCHES = (300, 2_000, 10_000)


def flights(file: str, columns: tuple[str, str, str], rows: int) -> list[Record]:
    """The first `rows` flights as events: `columns` are their key, time and value."""
    path = DATA / file
    if not path.exists():
        pytest.skip(f"the shared file {file} is not on this machine")
    table = pq.read_table(path, columns=list(columns)).slice(0, rows)
    keys, times, values = (table[column] for column in columns)
    in_ms = pc.cast(pc.cast(times, "timestamp[ms]"), "int64")
    encode = msgspec.json.Encoder().encode
    return [
        Record(offset, None, encode({"key": key, "time": time, "value": value}), time)
        for offset, (key, time, value) in enumerate(
            zip(keys.to_pylist(), in_ms.to_pylist(), values.to_pylist(), strict=True)
        )
    ]


def topology(lateness: str) -> Topology:
    return Topology(
        name="flights",
        source="events",
        span="7d",
        every="6h",
        windows=("1h", "1d", "7d"),
        lateness=lateness,
        statistics=(Count(), Sum(decimals=0)),
    )


def crashed_run(topology: Topology, records: Sequence[Record]) -> Partition:
    """A run with crashes on the way."""
    partition = Partition(topology, records, Random(7), FETCHES)
    for steps in (500, 3_000, 10_000):
        partition.live(steps)
    partition.live()
    return partition


@pytest.mark.parametrize(("lateness", "all_in_time"), [("12h", True), ("2h", False)])
def test_flights_by_landing(lateness: str, all_in_time: bool) -> None:
    """No flight comes 12 hours behind a later departure, some come 2 hours behind; what is in time
    is counted exactly as the model counts it.
    """
    records = flights(LANDINGS, ("origin", "departed_at", "distance"), ROWS)
    declared = topology(lateness)
    model = Model(declared, records)
    assert (model.offsets(Fate.LATE) == []) is all_in_time
    partition = Partition(declared, records, Random(1), FETCHES)
    partition.live()
    assert offsets_of("late", partition.outputs) == model.offsets(Fate.LATE)
    check_emissions(declared, model, emissions_of(partition.outputs))


def test_flights_by_departure_with_crashes() -> None:
    """Times that do not fall, many ties, a few hundred keys: crashes leave the undisturbed run's
    outputs and synopses.
    """
    records = flights(DEPARTURES, ("origin", "date", "distance"), ROWS)
    declared = topology("0s")
    whole = Partition(declared, records, Random(2), FETCHES)
    whole.live()
    check_emissions(declared, Model(declared, records), emissions_of(whole.outputs))
    crashed = crashed_run(declared, records)
    assert {o[:2]: o for o in crashed.outputs} == {o[:2]: o for o in whole.outputs}
    assert crashed.store().synopses(declared) == whole.store().synopses(declared)
    assert crashed.store().newest_checkpoint(declared) == whole.store().newest_checkpoint(declared)
