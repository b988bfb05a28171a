"""The driver runs a topology as a worker does, without a broker."""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import reduce
from random import Random

import numpy as np
import pytest
from hypothesis import given, strategies as st

from slidestat import TopologyDriver
from slidestat.declare.statistics import Count, Mean, Quantiles, Sum, TopItems
from slidestat.declare.times.time_format import TIME_FORMATS
from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError
from slidestat.schemas.dead_letter import Reason
from tests.engine.cases import CLOCKS, Case, cases, laws
from tests.engine.checks import check_emissions
from tests.engine.memory import PARTITION
from tests.engine.model import Fate, Model

START = 1_764_000_000_000
MINUTE = 60_000


def latency(**changes: object) -> Topology:
    """Five minutes of an endpoint's response times."""
    declared: dict[str, object] = {
        "name": "latency",
        "source": "requests",
        "span": "5m",
        "windows": ("1m", "5m"),
        "every": "1m",
        "lateness": "10s",
        "key_field": "request.path",
        "time_field": "at",
        "value_field": "ms",
        "statistics": (Count(), Sum(field="bytes"), Quantiles(quantiles=(0.5, 0.9))),
    }
    return Topology(**(declared | changes))  # type: ignore[arg-type]


def request(path: str, at: int, ms: float = 10, size: float = 100) -> dict[str, object]:
    return {"request": {"path": path}, "at": at, "ms": ms, "bytes": size}


def test_a_window_is_emitted_when_a_later_event_comes() -> None:
    """Not before: event time is that of the events, less the lateness."""
    driver = TopologyDriver(latency())
    driver.send(request("/a", START), request("/a", START + 20_000, ms=30))
    driver.send(request("/b", START + MINUTE + 9_999))
    assert driver.emissions == []
    driver.send(request("/b", START + MINUTE + 10_000))
    assert [(e.key, e.window_end_ms) for e in driver.emissions] == [("/a", START + MINUTE)]
    assert driver.figure("/a", "count", "1m").estimate == 2
    size = driver.figure("/a", "sum_bytes", "5m")
    assert size.lower is not None
    assert size.upper is not None
    assert size.lower <= 200 <= size.upper
    assert driver.figure("/a", "quantile", "1m", quantile=0.9).estimate == pytest.approx(
        30, rel=0.01
    )


def test_rows_are_those_that_could_be_written() -> None:
    """Of lists of items there are none: each item would be in the column of another figure."""
    driver = TopologyDriver(latency())
    driver.send(request("/a", START))
    driver.advance_to(START + MINUTE)
    assert [(row["window_ms"], row["count"]) for row in driver.rows] == [
        (MINUTE, 1),
        (5 * MINUTE, 1),
    ]
    driver = TopologyDriver(latency(statistics=(TopItems(field="request.path"), Count())))
    driver.send(request("/a", START))
    driver.advance_to(START + MINUTE)
    assert len(driver.emissions) == 1
    with pytest.raises(SlidestatError, match="a figure for each item"):
        _ = driver.rows


def test_time_advances_without_events() -> None:
    """To the millisecond: windows that end by then are emitted, events from before are late."""
    driver = TopologyDriver(latency())
    driver.send(request("/a", START))
    driver.advance_to(START + MINUTE - 1)
    assert driver.emissions == []
    driver.advance_to(START + MINUTE)
    assert len(driver.emissions) == 1
    driver.send(request("/a", START + MINUTE - 1), request("/a", START + MINUTE))
    assert [(letter.reason, letter.detail) for letter in driver.late] == [
        (Reason.LATE, "1 ms behind the watermark")
    ]
    with pytest.raises(SlidestatError, match="cannot go back"):
        driver.advance_to(START)
    with pytest.raises(SlidestatError, match="no time that an event may have"):
        driver.advance_to(START * 1_000)


def test_time_advances_in_the_partitions_that_are_behind() -> None:
    """One that is further on stays there; only where all are, it is an error."""
    driver = TopologyDriver(latency(), partitions=2)
    driver.send(request("/a", START), partition=0)
    driver.send(request("/b", START), *[request("/b", START + 9 * MINUTE)] * 2, partition=1)
    before = len(driver.emissions)
    driver.advance_to(START + MINUTE)
    assert [e.key for e in driver.emissions[before:]] == ["/a"]
    with pytest.raises(SlidestatError, match=f"is at {START + MINUTE} already"):
        driver.advance_to(START)


def test_closed_windows_leave_nothing_to_emit() -> None:
    """Each key's last emission, of empty windows, has come, in each partition."""
    driver = TopologyDriver(latency(), partitions=3)
    driver.close_windows()
    assert driver.emissions == []
    for path in "abcdefgh":
        driver.send(request(path, START + 7_000 * ord(path)))
    driver.close_windows()
    assert {e.source_partition for e in driver.emissions} == {0, 1, 2}
    for path in "abcdefgh":
        assert driver.figure(path, "count", "5m").estimate == 0
    emissions = list(driver.emissions)
    driver.close_windows()
    assert driver.emissions == emissions


def test_last_events_close_without_a_span_of_time() -> None:
    """A window of a key's last events is emitted once, with them in it."""
    driver = TopologyDriver(latency(span="3 events", windows=()))
    driver.send(*(request("/a", START + i, ms=i) for i in range(10)))
    driver.close_windows()
    assert len(driver.emissions) == 1
    median = driver.figure("/a", "quantile", "3 events", quantile=0.5)
    assert median.estimate == pytest.approx(8, rel=0.01)


def test_bad_records_are_dead_letters() -> None:
    """With the reason, what was wrong, and the record."""
    driver = TopologyDriver(latency(tombstones="dead-letter"))
    driver.send_bytes(b"no json", None, key=b"a key")
    driver.send({"request": {"path": "/a"}, "at": "now", "ms": 1, "bytes": 1})
    driver.send({"at": START})
    driver.send(request("/a", START), timestamp=START - 7_200_000)
    reasons = [letter.reason for letter in driver.dead_letters]
    assert reasons == [
        Reason.NOT_JSON,
        Reason.NULL_RECORD,
        Reason.BAD_TIME,
        Reason.MISSING_FIELD,
        Reason.FROM_THE_FUTURE,
    ]
    first = driver.dead_letters[0]
    assert (first.offset, first.key, first.value) == (0, b"a key", b"no json")
    assert driver.dead_letters[2].detail == "at: 'now' is no time in milliseconds"


def test_events_that_lack_a_field_count_for_the_others() -> None:
    """How many each statistic left out is told, also after a crash."""
    driver = TopologyDriver(latency(statistics=(Count(), Sum(), Sum(field="bytes"))))
    driver.send(request("/a", START), {"request": {"path": "/a"}, "at": START, "ms": 5})
    driver.send({"request": {"path": "/a"}, "at": START, "bytes": None})
    driver.advance_to(START + MINUTE)
    figures = {label: driver.figure("/a", label, "1m").estimate for label in driver.topology.labels}
    assert figures == pytest.approx({"count": 3, "sum": 15, "sum_bytes": 100}, rel=0.01)
    assert driver.left_out == {"sum": 1, "sum_bytes": 2}
    driver.restart()
    assert driver.left_out == {"sum": 1, "sum_bytes": 2}


@pytest.mark.parametrize("time_format", CLOCKS)
def test_times_of_any_format_and_keys_that_are_numbers(time_format: str) -> None:
    """They make the emissions that milliseconds and texts do, on the same partitions."""
    written = TIME_FORMATS[time_format].written
    drivers = [TopologyDriver(latency(), 3), TopologyDriver(latency(time_format=time_format), 3)]
    for i in range(50):
        at = START + 7_001 * i
        drivers[0].send(request(str(i % 5), at))
        drivers[1].send(request("", 0) | {"request": {"path": i % 5}, "at": written(at)})
    for driver in drivers:
        driver.close_windows()
        assert (driver.late, driver.dead_letters) == ([], [])
    assert drivers[0].emissions == drivers[1].emissions
    assert len(drivers[0].emissions) > 20


def test_a_key_stays_on_its_partition() -> None:
    """The one that Kafka's own clients send it to, or the one that it is told."""
    driver = TopologyDriver(latency(), partitions=4)
    for i in range(20):
        driver.send(request("/checkout", START + i * MINUTE), request("/home", START + i * MINUTE))
    driver.send(request("/told", START + 20 * MINUTE), partition=3)
    driver.close_windows()
    places = {(e.key, e.source_partition) for e in driver.emissions}
    assert places == {("/checkout", 3), ("/home", 2), ("/told", 3)}
    with pytest.raises(SlidestatError, match="There is no partition 4"):
        driver.send(request("/a", START), partition=4)
    with pytest.raises(SlidestatError, match="partitions is 0"):
        TopologyDriver(latency(), partitions=0)


AVRO = latency(source_format="avro")
DEEP = reduce(lambda within, _: [within], range(5_000), 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d: d.send(request("/a", START), key=b"a"), r"key is b'a'.*send_bytes"),
        (lambda d: d.send(request("/a", START), key="\ud800"), "key is '.ud800'"),
        (lambda d: d.send_bytes("{}"), "a value is '{}', and no bytes"),
        (lambda d: d.send_bytes(bytearray(b"{}")), "a value is bytearray"),
        (lambda d: d.send_bytes(b"{}", key="a"), "key is 'a', and no bytes"),
        (lambda d: d.send_bytes(b"{}", headers={"a": b"b"}), "headers is {'a'"),
        (lambda d: d.send_bytes(b"{}", headers=[("a", "b")]), "headers is "),
        (lambda d: d.send({"deep": DEEP}), "a dict that is nested too deep cannot be written"),
        (lambda d: d.send([{"a": 1}]), "an event is .*, which is no JSON object"),
        (lambda d: d.change_statistics(None), "topology is None"),
        (lambda _: TopologyDriver({"name": "t"}), "topology is {'name'"),  # type: ignore[arg-type]
        (lambda _: TopologyDriver(AVRO, schemas=['"string"']), "schemas is"),  # type: ignore[arg-type]
        (lambda _: TopologyDriver(AVRO, schemas={2**31: '"string"'}), "2147483648 is no id"),
    ],
)
def test_what_cannot_be_sent_is_told(
    call: Callable[[TopologyDriver], object], message: str
) -> None:
    """Not by an error of whatever met it first."""
    with pytest.raises(SlidestatError, match=message):
        call(TopologyDriver(latency()))


def test_an_idle_partition_emits_provisionally_if_the_topology_says_so() -> None:
    """As of a time of the wall's clock; the final emission replaces it."""
    silent, driver = TopologyDriver(latency()), TopologyDriver(latency(idle="30s"))
    for each in (silent, driver):
        each.send(request("/a", START), request("/a", START))
        each.idle_until(START + 2 * MINUTE)
    assert silent.emissions == []
    assert [e.provisional for e in driver.emissions] == [True]
    driver.send(request("/a", START + 1))
    driver.advance_to(START + MINUTE)
    assert [e.provisional for e in driver.emissions] == [True, False]
    assert driver.figure("/a", "count", "1m").estimate == 3


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"key": "/b"}, "no emission of '/b'.*/a"),
        ({"at": START}, f"at {START}.*{START + MINUTE}"),
        ({"statistic": "mean"}, "0 figures of '/a' are 'mean'.* There are count, sum_bytes, q"),
        ({"window": "2m"}, "0 figures"),
        ({"window": None}, "0 figures"),
        ({"statistic": "quantile"}, "2 figures"),
        ({"window": "soon"}, "window is 'soon'"),
    ],
)
def test_a_figure_that_is_not_there_is_told(wanted: dict[str, object], message: str) -> None:
    """With what there is instead."""
    driver = TopologyDriver(latency())
    driver.send(request("/a", START))
    driver.advance_to(START + MINUTE)
    arguments = {"key": "/a", "statistic": "count", "window": "1m"} | wanted
    with pytest.raises(SlidestatError, match=message):
        driver.figure(**arguments)  # type: ignore[arg-type]


def test_a_derived_figure_has_no_window() -> None:
    """So none is named for it."""
    driver = TopologyDriver(latency(derived=("count_1m / 2 as half",)))
    driver.send(request("/a", START))
    driver.advance_to(START + MINUTE)
    assert driver.figure("/a", "half").estimate == 0.5


def test_avro_output_is_read_like_any_other() -> None:
    """The same emissions, by way of a registry in memory."""
    drivers = [TopologyDriver(latency(output_format=name)) for name in ("json", "avro")]
    for driver in drivers:
        driver.send(*(request("/a", START + 700 * i, ms=i / 3) for i in range(300)))
        driver.close_windows()
    json, avro = drivers
    assert json.emissions == avro.emissions
    assert len(json.emissions) > 3


def test_the_driver_s_own_events_fit_any_statistic() -> None:
    """Also one whose numbers share an object with the key."""
    declared = latency(value_field="request.ms", statistics=(Mean(), Sum(field="request.bytes")))
    driver = TopologyDriver(declared)
    event = {"request": {"path": "/a", "ms": -3, "bytes": 7}, "at": START}
    driver.send(event)
    driver.close_windows()
    assert driver.dead_letters == []
    assert driver.figure("/a", "mean", "5m", at=START + MINUTE).estimate == -3


def _chunks(random: Random, rows: Sequence[bytes | None]) -> Iterator[Sequence[bytes | None]]:
    start = 0
    while start < len(rows):
        size = random.randint(1, 60)
        yield rows[start : start + size]
        start += size


@laws
@given(cases(max_size=60), st.booleans())
def test_the_driver_emits_what_the_model_says(case: Case, crash: bool) -> None:
    """Emissions, late and dead letters are the model's, also with commits and crashes anywhere."""
    records = [
        record._replace(offset=i, timestamp=-1, key=None) for i, record in enumerate(case.records)
    ]
    model = Model(case.topology, records)
    driver = TopologyDriver(case.topology, PARTITION + 1)
    for values in _chunks(case.random, [record.value for record in records]):
        driver.send_bytes(*values, partition=PARTITION)
        if crash and case.random.random() < 0.3:
            case.random.choice((driver.commit, driver.restart))()
    check_emissions(case.topology, model, driver.emissions)
    assert [letter.offset for letter in driver.late] == model.offsets(Fate.LATE)
    assert [letter.offset for letter in driver.dead_letters] == model.dead


def test_a_statistic_added_while_the_topology_runs() -> None:
    """The others go on as they were; what is new says since when it is counted, also after a
    crash. A topology that differs otherwise is refused, and the old one goes on.

    The second event is far ahead of the first one, so event time does not follow it before the
    third: what is new begins behind the first, and has the other two.
    """
    driver = TopologyDriver(latency(statistics=(Count(),)))
    driver.send(request("/a", START, ms=10), request("/a", START + 20_000, ms=20))
    driver.change_statistics(latency(statistics=(Count(), Mean())))
    driver.send(request("/a", START + 30_000, ms=40))
    driver.advance_to(START + MINUTE)
    counts, mean = driver.figure("/a", "count", "1m"), driver.figure("/a", "mean", "1m")
    assert (counts.estimate, counts.counted_from_ms) == (3, None)
    assert mean.lower is not None
    assert mean.upper is not None
    assert mean.lower <= 30 <= mean.upper
    assert mean.counted_from_ms == START + 1
    emissions = list(driver.emissions)
    driver.restart()
    assert driver.emissions == emissions
    with pytest.raises(SlidestatError, match="lateness"):
        driver.change_statistics(latency(statistics=(Count(),), lateness="20s"))
    driver.send(request("/a", START + 2 * MINUTE, ms=40))
    driver.close_windows()
    last = driver.figure("/a", "mean", "5m", at=START + 3 * MINUTE)
    assert last.counted_from_ms == START + 1


def test_what_no_record_can_have_is_refused_by_the_driver() -> None:
    """With what to do: numbers that Python does not write, what JSON has not, no timestamp."""
    huge = 10**5_000
    driver = TopologyDriver(latency(idle="1m"))
    for call in (
        lambda: driver.send(request("/a", START, ms=huge)),
        lambda: driver.send(request("/a", huge)),
        lambda: driver.send({"request": object()}),
        lambda: driver.send({"request": "\ud800"}),
        lambda: driver.send(request("/a", START), timestamp=huge),
        lambda: driver.send(request("/a", START), timestamp=2**63),
        lambda: driver.send_bytes(b"{}", timestamp=-2),
        lambda: driver.send(request("/a", START), partition=huge),
        lambda: driver.advance_to(huge),
        lambda: driver.advance_to(-huge),
        lambda: driver.advance_to(START + 0.5),
        lambda: driver.advance_to(datetime.now(UTC)),
        lambda: driver.idle_until("now"),
        lambda: driver.send(request("/a", START), partition="0"),
        lambda: driver.idle_until(huge),
    ):
        with pytest.raises(SlidestatError):
            call()  # type: ignore[no-untyped-call]
    assert driver.dead_letters == []
    driver.advance_to(np.int64(START))
    driver.send(request("/a", START, ms=10**4_000), timestamp=np.int64(START))
    assert [letter.reason for letter in driver.dead_letters] == [Reason.VALUE_TOO_LARGE]


def test_what_does_not_exist_is_none_in_answers_as_in_emissions() -> None:
    """The mean of no events is null on the wire, and no NaN."""
    driver = TopologyDriver(latency(windows=("1m",), statistics=(Mean(),)))
    driver.send(request("/a", START), request("/a", START + 2 * MINUTE))
    driver.advance_to(START + 4 * MINUTE)
    answer = driver.query("/a")
    assert answer is not None
    (asked,), written = answer.figures, driver.figure("/a", "mean", "1m")
    assert (asked.estimate, asked.lower, asked.upper) == (None, None, None)
    assert (written.estimate, written.lower, written.upper) == (None, None, None)
