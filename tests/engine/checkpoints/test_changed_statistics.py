"""Statistics that are added to states, or removed from them: the others do not notice, those that
are new are right from where they begin, and a crash at any point changes nothing.
"""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from hypothesis import assume, given, settings, strategies as st

from slidestat.declare.alerts import Alert
from slidestat.declare.statistics import (
    Count,
    LandmarkCount,
    LandmarkSum,
    Mean,
    Minimum,
    Quantiles,
    Sample,
    Statistic,
    Sum,
    TopItems,
)
from slidestat.declare.statistics.base import ListStatistic
from slidestat.declare.topology import Topology
from slidestat.engine.checkpoints.checkpoint import Slot, changed, split_meanings, stored_slots
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.decoding.formats.protobuf import ProtobufSchema
from slidestat.engine.decoding.formats.source_schemas import HEADER
from slidestat.engine.emissions.added_figures import AddedFigures
from slidestat.engine.emissions.output_codec import emission_writer
from slidestat.engine.partition import PartitionProcessor
from slidestat.errors import SlidestatError
from slidestat.live.live_query import LiveQuery
from slidestat.schemas.emission import Emission, Figure
from slidestat.testing.driver import TopologyDriver
from slidestat.web.answers.keys import FigureGauges
from tests.engine.cases import AGES, EVERY_STATISTIC, Case, cases, laws, topology
from tests.engine.checks import check_figures, emissions_of
from tests.engine.memory import PARTITION, SOURCE, MemoryStore, Partition, batch_of, rows_of
from tests.engine.model import Model, Record, inside, of_all, since_forgotten
from tests.engine.streams import START_MS, encode
from tests.registry.stand_in import StandIn, stand_in

BASES = (
    "no lateness",
    "a little lateness",
    "lateness of the span",
    "ticks far apart",
    "windows beyond the ticks",
    "last events",
    "last events, late",
)
BEFORE = (Count(epsilon=0.5), Sum(), Mean(epsilon=0.2, decimals=1))
NEW = tuple(s for s in EVERY_STATISTIC if s.kind not in {"count", "sum", "mean", "rate"})
NEW = (*NEW, LandmarkSum(name="in-all"), *AGES[:2])

few = settings(laws, max_examples=20)
_encode = msgspec.json.encode


def declared(case: Case, statistics: Sequence[Statistic]) -> Topology:
    return replace(case.topology, statistics=tuple(statistics))


def figures(emission: Emission, labels: Sequence[str]) -> list[Figure]:
    return [figure for figure in emission.figures if figure.statistic in labels]


@st.composite
def changes(draw: st.DrawFn) -> tuple[Case, list[Statistic], int, int | None]:
    """A stream, what is kept of BEFORE with what is new, in any order; before which record the
    change comes, and after which step the worker before it crashed.
    """
    case = draw(cases(max_size=120, topologies=BASES))
    fitting = [s for s in NEW if not (s.needs_time and case.topology.span_length.of_events)]
    # Without a count, an event that lacks the value is none.
    kept = [BEFORE[0], *draw(st.lists(st.sampled_from(BEFORE[1:]), unique_by=id))]
    new = draw(st.lists(st.sampled_from(fitting), max_size=3, unique_by=id))
    after = draw(st.permutations([*kept, *new]))
    # The others notice where one that is new or gone alone refuses a record.
    before, *others = (readable(declared(case, it), case) for it in (BEFORE, kept, after))
    assume(others == [before, before])
    place = draw(st.integers(0, len(case.records) - 1))
    return case, after, place, draw(st.none() | st.integers(0, 80))


def readable(topology: Topology, case: Case) -> list[int]:
    columns = EventDecoder(topology).decode(
        *([getattr(it, name) for it in case.records] for name in ("value", "key", "timestamp"))
    )
    return columns.rows.tolist()


def is_told(run: Partition) -> bool:
    """Whether a checkpoint tells of the states, if there are any."""
    store = run.store()
    return store.checkpoint() is not None or not [*store.scan()]


def changed_run(case: Case, after: Sequence[Statistic], place: int, steps: int | None) -> Partition:
    """What is left for the worker that has the other statistics."""
    run = Partition(declared(case, BEFORE), case.records[:place], case.random)
    run.live(steps)
    assume(is_told(run))
    run.topology, run.records = declared(case, after), case.records
    run.outputs, run.starts, run.commits = [], [], []
    run.flushed = slice(0)
    run.change_statistics = True
    return run


@few
@given(changes())
def test_the_others_do_not_notice_and_what_is_new_is_right_from_its_start(
    change: tuple[Case, list[Statistic], int, int | None],
) -> None:
    """Each figure that was kept has the same bytes at the same record; each that is new is, within
    its bounds, of the events of its window since one time; and says so as long as it must.
    """
    case, after, place, steps = change
    unchanged = Partition(declared(case, BEFORE), case.records, case.random)
    unchanged.live()
    run = changed_run(case, after, place, steps)
    run.live()
    topology = run.topology
    assert isinstance(topology, Topology)
    kept = [it for it in declared(case, BEFORE).labels if it in topology.labels]
    # The variance comes from the state of the mean, and is known from the beginning.
    runners = declared(case, BEFORE).runners
    pairs = zip(topology.labels, topology.statistics, topology.runners, strict=True)
    new = {label: s for label, s, runner in pairs if runner not in runners}
    labels = list(new)
    before = {(e.key, e.window_end_ms): e for e in emissions_of(unchanged.outputs)}
    slots = stored_slots(run.store().checkpoint())
    starts = {slot.start for slot in slots if slot.start is not None}
    start = starts.pop() if starts else None
    assert not starts
    model = Model(topology, case.records)
    if start is not None and place > 0:
        last = case.records[place - 1].offset + 1
        assert start - 1 <= model.watermark_before(last) + topology.lateness_ms
    of_key = model.of_key()
    # What begins together agrees, and keys that are kept for longer do not start anew.
    is_comparable = start is not None or not new
    is_comparable &= topology.sees_span_alone == declared(case, BEFORE).sees_span_alone
    marks = AddedFigures(topology, dict.fromkeys(labels, start) if start is not None else {})
    for emission in emissions_of(run.outputs):
        tick = emission.window_end_ms
        as_before = before[emission.key, tick]
        assert emission.source_offset == as_before.source_offset
        for label in kept if is_comparable else ():
            pair = figures(emission, [label]), figures(as_before, [label])
            assert _encode(pair[0]) == _encode(pair[1])
        found = figures(emission, labels)
        for figure in found:
            is_whole = start is None or tick >= marks.whole_from(figure)
            assert figure.counted_from_ms == (None if is_whole else start)
        of_events = topology.windows_of_events
        for label, statistic in new.items():
            for n in topology.window_lengths if isinstance(statistic, ListStatistic) else ():
                lengths = (None, n) if of_events else (n, None)
                listed = [
                    it
                    for it in found
                    if (it.statistic, it.window_ms, it.window_events) == (label, *lengths)
                ]
                nothing = Figure(label, None, None, None, *lengths)
                assert start is None or tick >= marks.whole_from(nothing) or listed
                if any(it.item is None for it in listed):
                    assert listed == [msgspec.structs.replace(nothing, counted_from_ms=start)]
                    found.remove(listed[0])
        lived = since_forgotten(topology, [e for e in of_key[emission.key] if e.time < tick])
        lived = [e for e in lived if start is None or e.time >= start]
        values = {
            n: [event.value for event in inside(topology, lived, n, tick)]
            for n in topology.window_lengths
        }
        if new:
            declared_new = replace(topology, statistics=tuple(new.values()))
            check_figures(declared_new, found, values | of_all(topology, lived, tick))


@few
@given(changes(), st.lists(st.integers(0, 120), min_size=1, max_size=5), st.booleans())
def test_crashes_after_a_change_leave_no_trace(
    change: tuple[Case, list[Statistic], int, int | None],
    crashes: list[int],
    asks_again: bool,
) -> None:
    """Whether the change was durable or not; later workers need not be asked for it again."""
    run = changed_run(*change)
    other = copy(run)
    other.random = copy(run.random)
    other.changelog, other.outputs, other.starts, other.commits = run.changelog[:], [], [], []
    other.live()
    for steps in crashes:
        run.change_statistics = is_told(run)
        run.live(steps, forget_offsets=run.random.random() < 0.3)
    stored = MemoryStore(run.changelog).checkpoint()
    is_changed = stored is not None and bool(stored_slots(stored))
    run.change_statistics = (asks_again or not is_changed) and is_told(run)
    run.live()
    assert isinstance(run.topology, Topology)
    first: dict[tuple[str, bytes | int], object] = {}
    for kind, key, rest in (*other.outputs, *run.outputs):
        assert first.setdefault((kind, key), rest) == rest
    assert {it[:2] for it in run.outputs} >= {it[:2] for it in other.outputs}
    assert run.store().synopses(run.topology) == other.store().synopses(other.topology)


# Told step by step: times are milliseconds after TICK.

TICK = 1_600_000_000_000
PLAIN = topology(windows=("100ms", "1s"))


def records_of(*times: int, value: object = 1, first: int = 0) -> list[Record]:
    return [
        Record(first + place, None, encode("k", TICK + time, value), TICK)
        for place, time in enumerate(times)
    ]


def processor(
    declaration: Topology, store: MemoryStore, *, change: bool = True
) -> PartitionProcessor:
    one = PartitionProcessor(declaration, SOURCE, PARTITION, store, change_statistics=change)
    if one.has_new_statistics:
        flush(one, store)
    return one


def flush(one: PartitionProcessor, store: MemoryStore) -> None:
    snapshot = one.snapshot()
    assert snapshot is not None
    store.write(rows_of(snapshot))
    one.written()


def emitted(one: PartitionProcessor, records: Sequence[Record]) -> list[Emission]:
    decode = msgspec.json.Decoder(Emission).decode
    return [decode(value) for _, value, _ in one.process(batch_of(records)).emissions]


def reader_of(output_format: str, registry: StandIn) -> Callable[[bytes], dict[str, Any]]:
    """Reads rows as whoever has the registry alone does."""
    if output_format == "connect-json":
        return lambda value: msgspec.json.decode(value)["payload"]
    if output_format == "avro":
        return AvroDeserializer(SchemaRegistryClient.new_client({"url": registry.url}))
    if output_format == "protobuf":
        return lambda value: protobuf_row(registry, value)
    return msgspec.json.decode


def protobuf_row(registry: StandIn, value: bytes) -> dict[str, Any]:
    number = int.from_bytes(value[1:5])
    schema = ProtobufSchema.registered(str(registry.schemas[number - 1]["schema"]))
    row: dict[str, Any] = msgspec.json.decode(schema.json(value, HEADER))
    return row


def with_(*statistics: Statistic) -> Topology:
    return replace(PLAIN, statistics=statistics)


def begun(declaration: Topology) -> MemoryStore:
    """A store with an event at 0 and one at 120, which is as far as event time has come."""
    store = MemoryStore()
    one = processor(declaration, store)
    one.process(batch_of(records_of(0, 120)))
    flush(one, store)
    return store


def test_without_being_asked_for_a_change_is_refused_and_says_how_to_go_on() -> None:
    store = begun(with_(Count()))
    with pytest.raises(SlidestatError, match="statistics are changed: added sum") as refused:
        processor(with_(Count(), Sum()), store, change=False)
    assert "--change-statistics" in refused.value.advice


def test_a_new_statistic_says_since_when_it_counts_until_its_windows_begin_later() -> None:
    """It begins behind the newest event, at 121; a window of 100 ms that ends at 300 begins at
    200, that of a second at 1200 begins at 200.
    """
    store = begun(with_(Count(), Sum()))
    one = processor(with_(Count(), Sum(), Minimum(epsilon=0)), store)
    assert [(it.statistic, it.from_ms, it.until_ms) for it in one.incomplete] == [
        ("minimum", TICK + 121, TICK + 1_121)
    ]
    found = emitted(one, records_of(130, 250, 1_150, 1_290, first=2, value=7))
    told = {
        (e.window_end_ms - TICK, f.window_ms): f.counted_from_ms
        for e in found
        for f in figures(e, ["minimum"])
    }
    began = TICK + 121
    assert told == {
        (200, 100): began,
        (200, 1_000): began,
        (300, 100): None,
        (300, 1_000): began,
        (1_200, 100): None,
        (1_200, 1_000): None,
    }
    assert one.incomplete == []
    assert all(f.counted_from_ms is None for e in found for f in figures(e, ["count", "sum"]))


def test_states_of_which_no_checkpoint_tells_are_not_changed() -> None:
    """Those of a worker that died in its first flush: without the flag they go on as they were."""
    before = with_(Count(), Sum())
    store = MemoryStore()
    one = processor(before, store)
    one.process(batch_of(records_of(0, 120)))
    snapshot = one.snapshot()
    assert snapshot is not None
    store.write([row for row in rows_of(snapshot) if row[0] is not None])
    with pytest.raises(SlidestatError, match="no checkpoint tells") as refused:
        processor(with_(Count(), Mean()), store)
    assert "without --change-statistics" in refused.value.advice
    again = processor(before, store, change=False)
    again.process(batch_of(records_of(0, 120)))
    flush(again, store)
    assert processor(with_(Count(), Mean()), store).incomplete


def test_what_was_removed_and_added_again_begins_anew() -> None:
    store = begun(with_(Count(), Sum()))
    one = processor(with_(Count()), store)
    one.process(batch_of(records_of(130, first=2)))
    flush(one, store)
    two = processor(with_(Sum(), Count()), store)
    (emission,) = emitted(two, records_of(140, 230, first=3, value=5))
    by_name = {(f.statistic, f.window_ms): f for f in emission.figures}
    assert by_name["count", 1_000].estimate == 4
    assert by_name["sum", 1_000].upper == 5
    assert by_name["sum", 1_000].counted_from_ms == TICK + 131
    slots = stored_slots(store.checkpoint())
    assert [(bool(s.meaning), s.start) for s in slots] == [
        (True, None),
        (False, None),
        (True, TICK + 131),
    ]


def test_statistics_that_share_a_state_are_new_together_or_not_at_all() -> None:
    """Another quantile of the same field is known at once."""
    store = begun(with_(Count(), Quantiles(quantiles=(0.5,))))
    one = processor(with_(Count(), Quantiles(quantiles=(0.5, 0.9))), store, change=False)
    assert not one.has_new_statistics
    assert one.incomplete == []


def test_a_record_that_only_the_new_statistic_would_refuse_stays_counted() -> None:
    """It was read before the change, waits or is not durable, and is read again: without a letter.
    The same record behind the change is refused.
    """
    declaration = replace(PLAIN, statistics=(Count(),), lateness="100ms")
    bad = [Record(it.offset, None, it.value, TICK) for it in records_of(110, value="no number")]
    store = MemoryStore()
    one = processor(declaration, store)
    waiting = replace(declaration, statistics=(Count(), Sum()))
    first = [*records_of(0, 30), bad[0]._replace(offset=2), *records_of(120, first=3)]
    assert one.process(batch_of(first)).dead_letters == []
    flush(one, store)
    two = processor(waiting, store)
    start = store.newest_checkpoint(waiting).next_offset
    later = [bad[0]._replace(offset=4), *records_of(350, 360, first=5)]
    again = [record for record in (*first, *later) if record.offset >= start]
    assert start <= 2
    effects = two.process(batch_of(again))
    assert [letter.offset for letter in effects.dead_letters] == [4]
    decode = msgspec.json.Decoder(Emission).decode
    counts = {
        e.window_end_ms - TICK: figures(e, ["count"])[1].estimate
        for e in (decode(value) for _, value, _ in effects.emissions)
    }
    assert counts == {100: 2, 200: 4}


def test_bounds_of_a_part_of_a_window_make_no_alert_certain() -> None:
    """More than two events since it began may be called likely; an upper bound says nothing."""
    alerts = (
        Alert(name="few", when="n < 2", window="1s"),
        Alert(name="surely-few", when="n < 2", window="1s", certain=True),
    )
    store = begun(with_(Sum()))
    one = processor(replace(with_(Sum(), Count(name="n")), alerts=alerts), store)
    effects = one.process(batch_of(records_of(130, 250, first=2)))
    changes = [msgspec.json.decode(record.value) for record in effects.alerts]
    assert [(c["alert"], c["state"], c["certainty"]) for c in changes] == [
        ("few", "firing", "likely")
    ]
    assert changes[0]["figures"][0]["counted_from_ms"] == TICK + 121


def test_a_list_without_an_item_says_since_when_it_has_none() -> None:
    """In each window that is not whole, of an emission and of an answer: in the list's place, as a
    figure without an item. One that has items says it by these.
    """
    store = begun(with_(Count(), Sum()))
    after = with_(Count(), TopItems(name="listed"), Sample(size=1, name="some"), Sum())
    one = processor(after, store)
    answer = LiveQuery(after, windows=("50ms", "1s")).answer(one.view(), "k")
    assert answer is not None
    nothing = [
        Figure(label, None, None, None, window_ms=window, counted_from_ms=TICK + 121)
        for label in ("listed", "some")
        for window in (50, 1_000)
    ]
    assert [it for it in answer.figures if it.statistic in ("listed", "some")] == nothing
    assert list(dict.fromkeys(it.statistic for it in answer.figures)) == [*after.labels]
    first, *_, last = emitted(one, records_of(240, 1_150, 1_290, first=2))
    assert {(it.window_ms, it.item) for it in figures(first, ["listed", "some"])} == {
        (100, None),
        (1_000, None),
    }
    assert [it.estimate for it in figures(first, ["count"])] == [1, 2]
    assert last.window_end_ms == TICK + 1_200
    assert {(it.item, it.counted_from_ms) for it in figures(last, ["listed"])} == {("1", None)}


@pytest.mark.parametrize("output_format", ["json", "connect-json", "avro", "protobuf"])
def test_rows_have_a_column_for_since_when_a_figure_is_counted(output_format: str) -> None:
    """While it is not of all of its window; of what was there before, and of partitions in which
    nothing was added, rows are as they were, but for a schema's null.
    """
    before = replace(with_(Count(), Sum()), output_shape="rows", output_format=output_format)
    after = replace(before, statistics=(Count(), Quantiles(quantiles=(0.5,)), Sum()))
    store = begun(with_(Count(), Sum()))
    later = records_of(130, 250, 1_150, 1_290, first=2, value=7)
    with stand_in() as registry:
        codec = emission_writer(after, registry.url)
        change = PartitionProcessor(
            after, SOURCE, PARTITION, store, codec=codec, change_statistics=True
        )
        flush(change, store)
        found = [value for _, value, _ in change.process(batch_of(later)).emissions]
        read = reader_of(output_format, registry)
        rows = [read(value) for value in found]
        whole = PartitionProcessor(after, SOURCE, PARTITION, MemoryStore(), codec=codec)
        plain = [value for _, value, _ in whole.process(batch_of(later)).emissions]
        assert not any("counted_from" in name for value in plain for name in read(value))
    began = TICK + 121
    told = [
        (row["window_end_ms"] - TICK, row["window_ms"], row.get("p50_counted_from_ms"))
        for row in rows
    ]
    assert told == [
        (200, 100, began),
        (200, 1_000, began),
        (300, 100, None),
        (300, 1_000, began),
        (1_200, 100, None),
        (1_200, 1_000, None),
    ]
    marks = {name for row in rows for name in row if "counted_from" in name}
    assert marks == {"p50_counted_from_ms"}


def test_totals_since_the_first_event_are_never_of_all_of_them() -> None:
    store = begun(with_(Count()))
    one = processor(with_(Count(), LandmarkCount()), store)
    found = emitted(one, records_of(900, 1_150, first=2))
    assert figures(found[-1], ["landmark_count"])[0].counted_from_ms == TICK + 121
    assert one.incomplete[0].until_ms is None


@pytest.mark.parametrize(
    ("after", "why"),
    [
        (replace(PLAIN, statistics=(Sum(), Count()), publish="partition"), "key_field"),
        (replace(PLAIN, statistics=(Sum(), Count()), publish=("k",)), "publishes its synopses"),
        (with_(Minimum()), "none of the stored statistics"),
        (replace(PLAIN, statistics=(Sum(), Count()), lateness="1s"), "lateness"),
        (
            replace(PLAIN, statistics=(Sum(), Count()), computed=("ms * 2 as value",)),
            "computed field value",
        ),
    ],
)
def test_what_cannot_go_on_is_refused(after: Topology, why: str) -> None:
    store = begun(with_(Sum()))
    with pytest.raises(SlidestatError, match=why):
        processor(after, store)


def test_a_new_statistic_may_bring_its_computed_field() -> None:
    store = begun(with_(Count()))
    after = replace(
        PLAIN,
        statistics=(Count(), Sum(field="double")),
        computed=("value * 2 as double",),
    )
    (found,) = emitted(processor(after, store), records_of(130, 250, first=2, value=4))
    assert figures(found, ["sum_double"])[0].upper == 8


def test_a_topology_of_which_nothing_was_counted_begins_as_a_new_one() -> None:
    store = MemoryStore()
    one = processor(with_(Count()), store)
    one.process(batch_of([Record(0, None, b"not JSON", TICK)]))
    flush(one, store)
    two = processor(with_(Count(), Sum()), store)
    assert two.incomplete == []
    assert stored_slots(store.checkpoint()) == ()
    assert not processor(with_(Count(), Sum()), store, change=False).has_new_statistics


@laws
@given(
    st.lists(st.text("ab; ", min_size=1).filter(lambda it: not it.startswith("; ")), unique=True)
)
def test_meanings_are_split_as_they_were_joined(meanings: list[str]) -> None:
    """Where all of them are known, and none begins with another and the separator."""
    if any(a != b and b.startswith(a + "; ") for a in meanings for b in meanings):
        return
    assert split_meanings("; ".join(meanings), meanings) == meanings


def test_a_state_has_places_for_255_synopses() -> None:
    before = tuple(Slot("") for _ in range(254))
    assert len(changed(before, ["a"], 1, 1)) == 255
    with pytest.raises(SlidestatError, match="no place for more"):
        changed(before, ["a", "b"], 1, 1)


def test_what_the_others_read_of_a_record_stays_what_it_was() -> None:
    """A new statistic that refuses a record, for want of a number or for its size, takes nothing
    of it from those that had counted it; nor does its quota.
    """
    before = replace(with_(Count(), Sum(), Minimum(epsilon=0)), lateness="200ms")
    added = (Sum(name="fine", decimals=9), Sum(field="page"))
    records = records_of(0, 40, 80, 120, 160, value=20_000)
    bad = msgspec.json.encode({"key": "k", "time": TICK + 170, "value": 20_000, "page": "a text"})
    records.append(Record(5, None, bad, TICK))
    later = [
        Record(
            offset, None, msgspec.json.encode({"key": "k", "time": at, "value": 1, "page": 1}), TICK
        )
        for offset, at in enumerate((TICK + 300, TICK + 400, TICK + 600), 6)
    ]
    found = []
    for after in (before, replace(before, statistics=(*before.statistics, *added))):
        store = MemoryStore()
        one = processor(before, store)
        one.process(batch_of(records))
        flush(one, store)
        two = processor(after, store)
        assert two.next_offset < len(records)
        unread = [it for it in records + later if it.offset >= two.next_offset]
        effects = two.process(batch_of(unread))
        assert effects.dead_letters == []
        emissions = [msgspec.json.decode(it[1], type=Emission) for it in effects.emissions]
        found.append([_encode(figures(e, ["count", "sum", "minimum"])) for e in emissions])
    assert found[0] == found[1] != []


def test_the_quota_of_a_new_statistic_refuses_no_record_that_was_counted() -> None:
    """More than 65,536 of its largest values in a stretch, all of which wait for the watermark."""
    before = replace(with_(Count(epsilon=0.5)), lateness="1s")
    after = replace(before, statistics=(Count(epsilon=0.5), Sum(decimals=9)))
    largest = after.columns.numbers[0].limits
    assert largest is not None
    (record,) = records_of(0, value=largest.most * 0.99)
    records = [record._replace(offset=offset) for offset in range(70_000)]
    store = MemoryStore()
    one = processor(before, store)
    one.process(batch_of(records))
    flush(one, store)
    two = processor(after, store)
    later = records_of(*range(1_100, 2_200, 50), first=70_000)
    emission = emitted(two, [*records, *later])[0]
    assert figures(emission, ["count"])[0].upper >= 70_000
    assert two.reached.counters.dead == 0


def test_a_second_change_knows_what_the_first_one_added() -> None:
    """The first statistics may go once others are stored; a computed field that one of these reads
    may not change.
    """
    double = ("value * 2 as double",)
    first = replace(with_(Count(), Sum(field="double")), computed=double)
    store = begun(with_(Count()))
    one = processor(first, store)
    one.process(batch_of(records_of(130, 250, first=2)))
    flush(one, store)
    with pytest.raises(SlidestatError, match="computed field double"):
        processor(replace(first, computed=("value * 1000 as double",)), store)
    two = processor(replace(first, statistics=first.statistics[1:]), store)
    assert [it.statistic for it in two.incomplete] == ["sum_double"]


def test_a_total_may_be_added_with_when_it_is_forgotten() -> None:
    """Also where records from before are read again, of which no statistic was forgotten."""
    before = replace(with_(Count()), lateness="100ms")
    store = MemoryStore()
    one = processor(before, store)
    records = records_of(0, 110, 120)
    one.process(batch_of(records))
    flush(one, store)
    statistics = (Count(), LandmarkSum())
    two = processor(replace(before, statistics=statistics, forget_after="10s"), store)
    unread = [it for it in records if it.offset >= two.next_offset]
    found = emitted(two, [*unread, *records_of(350, first=3)])
    assert [it.estimate for it in figures(found[-1], ["count"])] == [2, 3]


def test_what_reads_figures_may_read_new_ones() -> None:
    """Records from before the change are read again as before, without any of it."""
    before = Topology(
        **{"name": "law", "source": "events", "span": "10s", "every": "1s", "lateness": "2s"},
        statistics=[Count()],
    )
    driver = TopologyDriver(before)
    events = [{"key": "a", "time": START_MS + i * 500, "value": 1} for i in range(40)]
    driver.send(*events[:20])
    statistics, derived = [Count(), Sum()], ["sum_10s / count_10s as each"]
    after = replace(before, statistics=statistics, derived=derived, having="sum_10s > 0")
    driver.change_statistics(after)
    driver.send(*events[20:])
    assert driver.figure("a", "each").derived


def test_an_alert_may_not_change_hands_while_it_may_be_firing() -> None:
    """It would say firing for ever where its new statistic begins with nothing."""
    alerts = (Alert(name="much", when="n >= 2", window="1s"),)
    before = replace(with_(Sum(), Count(name="n", epsilon=0.5)), alerts=alerts)
    after = replace(before, statistics=(Sum(), Count(name="n", epsilon=0.1)))
    store = begun(before)
    with pytest.raises(SlidestatError, match="the alert much reads"):
        processor(after, store)
    processor(replace(after, alerts=()), store)
    assert not processor(after, store, change=False).has_new_statistics


def test_what_states_have_seen_is_not_judged_by_what_is_new() -> None:
    """Where a worker died between its states and its checkpoint."""
    (bad,) = records_of(10, first=1, value="no number")
    records = [*records_of(0), bad, *records_of(20, 150, first=2)]
    store = MemoryStore()
    one = processor(with_(Count()), store)
    one.process(batch_of(records[:1]))
    flush(one, store)
    one.process(batch_of(records))
    snapshot = one.snapshot()
    assert snapshot is not None
    store.write([row for row in rows_of(snapshot) if row[0] is not None])
    two = processor(with_(Count(), Sum()), store)
    effects = two.process(batch_of([*records, *records_of(250, 350, first=4)]))
    assert effects.dead_letters == []
    assert two.reached.counters.counted == 6


def test_ranks_and_metrics_do_not_pass_a_part_of_a_window_for_all_of_it() -> None:
    store = begun(with_(Count()))
    after = with_(Count(), Quantiles())
    one = processor(after, store)
    one.process(batch_of(records_of(250, 380, first=2)))
    answer = LiveQuery(after, ranks=(100.0,)).answer(one.view(), "k")
    assert answer is not None
    assert [it.counted_from_ms for it in answer.ranks or ()] == [None, TICK + 121]
    answer = LiveQuery(after).answer(one.view(), "k")
    assert answer is not None
    gauges = FigureGauges([answer], ()).collect()
    of_figures = [s.labels for g in gauges for s in g.samples if "statistic" in s.labels]
    told = {(labels["statistic"], labels["window"]) for labels in of_figures}
    assert told == {("count", "100ms"), ("count", "1s"), ("quantile", "100ms")}
