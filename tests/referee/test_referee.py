"""A referee answers over the union of what the parties know, whatever happens to it and to them."""

from bisect import bisect_left
from itertools import pairwise
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from slidestat.declare.referee import Referee
from slidestat.declare.statistics import Count
from slidestat.declare.topology import Topology
from slidestat.engine.checkpoints.checkpoint import Counters
from slidestat.engine.publishing import SynopsisRecord
from slidestat.errors import SlidestatError
from slidestat.schemas.emission import AbsentParty, Emission
from slidestat.schemas.synopsis import (
    ClockKey,
    NumberedSynopsis,
    SynopsisKey,
    decode_key,
    encode_key,
)
from tests.engine.cases import topology
from tests.engine.checks import check_figures
from tests.engine.memory import SOURCE, Output, Partition
from tests.engine.model import Record
from tests.engine.stages import WHOLE, Stage, clock, mixed, of_parties, publish, stages, streams_of
from tests.engine.streams import START_MS, encode

laws = settings(
    derandomize=True,
    deadline=None,
    max_examples=24,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def tick_after(declared: Topology, time: int) -> int:
    return (time // declared.every_ms + 1) * declared.every_ms


def final_places(stage: Stage) -> list[tuple[int, str]]:
    """The ticks that all parties have passed, with the streams that then have an answer: those with
    events since the tick before, and those of which the span has been left by all; or any window,
    maybe; or all until then.
    """
    declared, every = stage.referee.answering, stage.referee.of.every_ms
    settled = min(clock(declared, model) for model in stage.models)
    names = {name for model in stage.models for name in streams_of(declared, model)}
    found = []
    for name in names:
        ticks = set()
        for model in stage.models:
            events = streams_of(declared, model).get(name, [])
            ticks |= {
                tick
                for tick in (tick_after(declared, event.time) for event in events)
                if tick <= clock(declared, model)
            }
        silent: set[int] = set()
        of_events = declared.span_length.of_events
        for tick, following in pairwise([] if of_events else [*sorted(ticks), float("inf")]):
            last = -(-(tick + declared.span_length.length) // every) * every
            emptied = {last}
            if stage.referee.emit != "events":
                for length in (*declared.window_lengths, declared.span_length.length):
                    # Somewhere in the tick before, the last event was.
                    emptied |= {(tick - 1 + length) // every * every + every}
                    emptied |= {(tick - every + length) // every * every + every}
            if stage.referee.emit == "always":
                emptied |= {*range(tick, last + 1, every)}
            silent |= {one for one in emptied if tick < one < following}
        found += [(tick, name) for tick in ticks | silent if tick <= settled]
    return sorted(found)


def emissions(outputs: list[Output]) -> list[Emission]:
    found = []
    for kind, _, rest in outputs:
        assert kind == "emission", rest
        found.append(msgspec.json.decode(rest[0], type=Emission))  # type: ignore[call-overload]
    return found


def run(stage: Stage, *crashes: int) -> Partition:
    partition = Partition(stage.referee, stage.published, stage.random)
    for steps in crashes:
        partition.live(steps)
    partition.live()
    return partition


def undisturbed(stage: Stage) -> Partition:
    """All in one batch, which costs less than many: that these never show is what the laws say."""
    partition = Partition(stage.referee, stage.published, stage.random)
    partition.live_at_once()
    return partition


# Of the emptying of windows three in eight say something.
@settings(laws, max_examples=60)
@given(stages())
def test_answers_are_those_of_the_parties_at_their_ticks(stage: Stage) -> None:
    """All that is told in one run of a referee, in each respect."""
    found = emissions(run(stage).outputs)
    answers_are_those_of_the_parties_present(stage, found)
    final_answers_come_once_for_each_tick_of_all(stage, found)
    the_newest_final_answer_shows_no_events_in_an_empty_window(stage, found)
    who_is_absent_is_told_with_since_when(stage, found)


def answers_are_those_of_the_parties_present(stage: Stage, found: list[Emission]) -> None:
    """Of every statistic, final and provisional: the exact figure over the events of all parties
    that are named lies within the bounds, the estimate within the promise.
    """
    declared = stage.referee.answering
    for emission in found:
        end = emission.window_end_ms
        values = of_parties(declared, stage, emission.key, emission.parties or (), end)
        check_figures(declared, emission.figures, values)


def final_answers_come_once_for_each_tick_of_all(stage: Stage, found: list[Emission]) -> None:
    """At each tick that every party has passed, in order, of all streams with events since, or with
    none left; all parties are named, nobody is absent.
    """
    final = [e for e in found if not e.provisional]
    assert [(e.window_end_ms, e.key) for e in final] == final_places(stage)
    everyone = [f"{SOURCE}/{number}" for number in range(stage.parties)]
    assert all(e.parties == everyone and e.absent is None for e in final)


def the_newest_final_answer_shows_no_events_in_an_empty_window(
    stage: Stage, found: list[Emission]
) -> None:
    """At each tick that all parties have passed: a window that has no event any more had none in
    the answer that was the newest then.
    """
    # The last events of a party do not leave their windows in a silence.
    if stage.referee.emit == "events" or stage.referee.of.span_length.of_events:
        return
    declared = stage.referee.answering
    answered: dict[str, list[int]] = {}
    for emission in found:
        if not emission.provisional:
            answered.setdefault(emission.key, []).append(emission.window_end_ms)
    settled = min(clock(declared, model) for model in stage.models)
    for name, ticks in answered.items():
        every_party = [streams_of(declared, model).get(name, []) for model in stage.models]
        times = sorted(event.time for events in every_party for event in events)

        def count(end: int, length: int, times: list[int] = times) -> int:
            return bisect_left(times, end) - bisect_left(times, end - length)

        for place, tick in enumerate(ticks):
            following = ticks[place + 1] if place + 1 < len(ticks) else int(settled) + 1
            for n in declared.window_lengths:
                # The last tick before the next answer: what is empty before is so then.
                last = (following - 1) // declared.every_ms * declared.every_ms
                assert count(tick, n) == 0 or count(last, n) > 0


def who_is_absent_is_told_with_since_when(stage: Stage, found: list[Emission]) -> None:
    """A provisional answer names as present those that have come to its tick, and the others with
    how far they have come; and it is given when the furthest is `patience` ahead, not before.
    """
    declared = stage.referee.of
    known: dict[str, int] = {}
    told = {}
    for record in stage.published:
        assert record.key is not None
        key = decode_key(record.key)
        if isinstance(key, ClockKey):
            known[key.party] = record.timestamp
            told[record.offset] = dict(known)
    for emission in found:
        if not emission.provisional:
            continue
        tick, came = emission.window_end_ms, told[emission.source_offset]
        everyone = [f"{SOURCE}/{number}" for number in range(stage.parties)]
        assert emission.parties == [name for name in everyone if came.get(name, 0) >= tick]
        assert emission.absent == [
            AbsentParty(name, came.get(name)) for name in everyone if came.get(name, 0) < tick
        ]
        assert emission.absent
        assert max(came.values()) - tick >= stage.referee.patience_ms
        assert tick % declared.every_ms == 0


@laws
@given(stages(), st.lists(st.integers(0, 120), min_size=1, max_size=4))
def test_crashes_of_a_referee_leave_no_trace(stage: Stage, crashes: list[int]) -> None:
    """Whatever was written when it died: what was sent is what an undisturbed one sends, to the
    byte, and so is what is stored in the end.
    """
    crashed, whole = run(stage, *crashes), undisturbed(stage)
    first: dict[tuple[object, ...], object] = {}
    for kind, key, rest in crashed.outputs:
        assert isinstance(rest[0], bytes)
        provisional = b'"provisional":true' in rest[0]
        assert first.setdefault((kind, key, provisional), rest) == rest
    assert set(map(repr, crashed.outputs)) == set(map(repr, whole.outputs))
    assert list(crashed.store().scan()) == list(whole.store().scan())
    assert crashed.store().checkpoint() == whole.store().checkpoint()


@laws
@given(stages(), st.integers(0, 2**32))
def test_final_answers_do_not_depend_on_how_parties_mix(stage: Stage, seed: int) -> None:
    """In another order of the parties' records, and with some sent again from further back as a
    party that crashed does: the same figures.
    """
    random = Random(seed)
    sent: dict[str, list[SynopsisRecord]] = {}
    for record in stage.published:
        assert record.key is not None
        found = SynopsisRecord(0, record.key, record.value or b"", record.timestamp, [])
        sent.setdefault(decode_key(record.key).party, []).append(found)
    for records_of in sent.values():
        again = random.randrange(len(records_of) + 1)
        back = random.randrange(again + 1)
        records_of[again:again] = records_of[back:again]
    other = Stage(
        stage.referee, stage.parties, stage.models, mixed(random, list(sent.values())), random
    )

    def final(of: Partition) -> list[Emission]:
        found = [e for e in emissions(of.outputs) if not e.provisional]
        return [msgspec.structs.replace(e, source_offset=0) for e in found]

    assert final(run(other)) == final(undisturbed(stage))


def one_party_each(times: list[list[int]], **fields: Any) -> tuple[Referee, list[list[Any]]]:
    """A referee of parties with events at these times after the start, and what each published."""
    declared = topology(publish="partition", statistics=(Count(),), every="100ms", windows=("1s",))
    sent = []
    for number, party in enumerate(times):
        rows = [
            Record(i, None, encode("k", START_MS // 100 * 100 + t, 1), START_MS)
            for i, t in enumerate(party)
        ]
        sent.append(publish(declared, number, len(times), rows))
    return Referee(of=declared, **fields), sent


def answer(referee: Referee, sent: list[Any]) -> tuple[list[Emission], Partition]:
    """What comes of these records in this order."""
    rows = [Record(i, r.key, r.value, r.timestamp) for i, r in enumerate(sent)]
    partition = Partition(referee, rows, Random(0), largest_batches=(1_000,))
    partition.live()
    return emissions([o for o in partition.outputs if o[0] == "emission"]), partition


START = START_MS // 100 * 100


def test_a_party_that_never_comes_is_given_up() -> None:
    """Once the others are `correctable` ahead of an answer without it, that is final, and what was
    kept for its sake is gone.
    """
    times = [[*range(0, 5_000, 50)], [*range(0, 5_000, 70)], [0, 0]]
    referee, (one, two, three) = one_party_each(times, patience="300ms", correctable="2s")
    others = sorted([*one, *two], key=lambda record: record.timestamp)
    found, partition = answer(referee, [*three, *others])
    final = [e for e in found if not e.provisional]
    ends = {e.window_end_ms for e in final}
    assert max(ends) == START + 2_900
    assert {e.window_end_ms for e in found} - ends == set(range(START + 3_000, START + 4_700, 100))
    assert all(e.absent == [AbsentParty(f"{SOURCE}/2", START)] for e in final[1:])
    kept = {place for place, _ in partition.store().scan()} - {"clocks"}
    ticks = {msgspec.json.decode(place)[3] for place in kept}
    assert min(ticks) == START + 2_900


def test_a_late_party_is_counted_once_it_has_come() -> None:
    """An answer without it is replaced, under the same key, by one with it."""
    times = [[*range(0, 3_000, 50)], [*range(0, 3_000, 30)]]
    referee, (one, two) = one_party_each(times, patience="0s")
    found, _ = answer(referee, [*one, *two])
    ticks = range(START + 100, START + 3_000, 100)
    assert [e.window_end_ms for e in found] == [*ticks, *ticks]
    assert [e.provisional for e in found] == [True] * len(ticks) + [False] * len(ticks)
    assert found[10].figures[0].estimate == 20
    assert found[10 + len(ticks)].figures[0].estimate == 20 + 33


def test_a_party_that_was_given_up_is_counted_when_it_is_back() -> None:
    """In the answers from then on, with what it knows of their windows."""
    times = [[*range(0, 5_000, 50)], [0, 10, *range(4_000, 5_000, 10)]]
    referee, (one, two) = one_party_each(times, patience="0s", correctable="1s")
    before = [record for record in two if record.timestamp <= START]
    found, _ = answer(referee, [*before, *one, *two[len(before) :]])
    last = found[-1]
    assert not last.provisional
    assert last.window_end_ms == START + 4_900
    assert last.figures[0].lower <= 20 + 90 <= last.figures[0].upper


@pytest.mark.parametrize("number", [None, 0, 2, 2**63 - 1])
def test_a_number_that_the_last_event_cannot_have_is_a_dead_letter(number: int | None) -> None:
    """None, one before all, one beyond all, and one before the last event of a synopsis of three:
    that would be asked for windows that end before what is in it.
    """
    declared = topology(publish="partition", statistics=(Count(),), span="9 events", windows=())
    times = enumerate((0, 1, 2, 150))
    rows = [Record(n, None, encode("k", START + time, 1), START) for n, time in times]
    sent = publish(declared, 0, 1, rows)
    synopsis = next(record for record in sent if record.headers)
    right = NumberedSynopsis.decode(synopsis.value)
    assert right.number == 3
    value = right.synopsis[:5] if number is None else right._replace(number=number).encode()
    wrong = synopsis._replace(value=value)
    found, partition = answer(Referee(of=declared, patience="1s"), [wrong, *sent])
    assert [it.figures[0].estimate for it in found] == [3]
    letters = [rest for kind, _, rest in partition.outputs if kind == "dead letter"]
    assert [letter[1:4] for letter in letters] == [(value, wrong.timestamp, "bad-synopsis")]


@pytest.mark.parametrize(
    ("key", "value", "timestamp", "reason"),
    [
        (None, b"x", START, "null-record"),
        (b"[]", None, START, "null-record"),
        (b"no json", b"x", START, "bad-key"),
        (b'["law"]', b"x", START, "bad-key"),
        (encode_key(SynopsisKey("other", "count", SOURCE, "events/0")), b"x", START, "bad-key"),
        (encode_key(SynopsisKey("law", "sum", SOURCE, "events/0")), b"x", START, "bad-key"),
        (encode_key(SynopsisKey("law", "count", SOURCE, "events/x")), b"x", START, "bad-key"),
        (encode_key(SynopsisKey("law", "count", SOURCE, "others/0")), b"x", START, "bad-key"),
        (encode_key(SynopsisKey("law", "count", SOURCE, "events/00")), b"x", START, "bad-key"),
        (encode_key(ClockKey("law", "events/" + "9" * 5_000)), b"x", START, "bad-key"),
        (encode_key(SynopsisKey("law", "count", SOURCE, "events/0")), b"x", START, "bad-synopsis"),
        (encode_key(SynopsisKey("law", "count", SOURCE, "events/0")), b"x", 12, "bad-time"),
        (encode_key(ClockKey("law", "events/0")), b"{}", START, "bad-synopsis"),
        (
            encode_key(ClockKey("law", "events/0")),
            b'{"tick_ms":1600000000000,"parties":0,"source_offset":0}',
            START,
            "bad-synopsis",
        ),
        (
            encode_key(ClockKey("law", "events/0")),
            b'{"tick_ms":12,"parties":1,"source_offset":0}',
            START,
            "bad-time",
        ),
    ],
)
def test_what_no_party_sends_is_a_dead_letter(
    key: bytes | None, value: bytes | None, timestamp: int, reason: str
) -> None:
    """Garbage between the records of two parties: a letter with its reason, and answers as if it
    had not been there.
    """
    referee, (one, two) = one_party_each([[0, 150, 300], [20, 130, 320]], patience="1s")
    bad = SynopsisRecord(0, key, value, timestamp, [])  # type: ignore[arg-type]
    right, _ = answer(referee, [*one, *two])
    found, partition = answer(referee, [bad, *one, bad, *two, bad])
    figures = [(e.window_end_ms, e.figures) for e in found]
    assert figures == [(e.window_end_ms, e.figures) for e in right]
    letters = [rest for kind, _, rest in partition.outputs if kind == "dead letter"]
    assert [letter[:4] for letter in letters] == [(key, value, timestamp, reason)] * 3
    read = len(one) + len(two) + 3
    assert partition.commits[-1].counters == Counters(read, read - 3, 3, 0)


def test_a_synopsis_of_other_parameters_is_a_dead_letter() -> None:
    """One that was made with another error cannot be united, and is not."""
    referee, (one, _) = one_party_each([[0, 150], [0]], patience="1s")
    other = topology(publish="partition", statistics=(Count(epsilon=0.5),), every="100ms")
    row = Record(0, None, encode("k", START, 1), START)
    rows = [row, row._replace(offset=1, value=encode("k", START + 200, 1))]
    wrong = [r for r in publish(other, 1, 2, rows) if r.headers]
    _, partition = answer(referee, [*one, *wrong])
    letters = [rest[3:5] for kind, _, rest in partition.outputs if kind == "dead letter"]
    assert [(reason, "parameters" in str(detail)) for reason, detail in letters] == [
        ("bad-synopsis", True)
    ]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"of": topology()}, "of is no topology that publishes"),
        ({"patience": "soon"}, "patience is 'soon'"),
        ({"correctable": "1s", "patience": "2s"}, "correctable is '1s'"),
        ({"windows": ("2h",)}, "windows has '2h'"),
        ({"name": "law"}, "name is 'law'"),
        ({"name": "no good"}, "name is 'no good'"),
        ({"output_format": "xml"}, "output_format is 'xml'"),
        ({"emit": "change"}, "emit is 'change': an answer without a party may be the newest"),
        ({"emit": "sometimes"}, "emit is 'sometimes'"),
    ],
)
def test_a_referee_that_cannot_be_is_refused(fields: dict[str, Any], said: str) -> None:
    """With the field at fault."""
    with pytest.raises(SlidestatError, match=said):
        Referee(**{"of": WHOLE["late"], "patience": "1s", **fields})


def test_names_follow_from_the_topology() -> None:
    """What it reads and writes."""
    referee = Referee(of=WHOLE["late"], patience="1s")
    assert (referee.name, referee.source) == ("law-global", "law-synopses")
    assert (referee.output_topic, referee.application_id) == (
        "law-global-statistics",
        "slidestat-law-global",
    )
    assert bisect_left(referee.answering.window_lengths, 1_000) == 3
