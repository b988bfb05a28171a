"""A topology for a topic that was looked at: which fields, which statistics, and why.

Guesses are marked as such, in a file that a person reads before it runs.
"""

import re
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import msgspec
import numpy as np

from slidestat.declare.expressions.nodes import FieldValue, text_of
from slidestat.declare.fields import RECORD_KEY, FieldPath, field_text
from slidestat.declare.slos import Slo
from slidestat.declare.statistics import Mean, Sum
from slidestat.declare.times.lengths import duration_ms
from slidestat.declare.times.time_format import TIME_FORMATS
from slidestat.declare.topology import Topology
from slidestat.engine.clock import RECORDS
from slidestat.engine.decoding.formats.source_schemas import other_framing
from slidestat.engine.decoding.times import NOT_A_TIME, event_times
from slidestat.errors import SlidestatError
from slidestat.infer.proposed_fields import (
    Ask,
    Doubts,
    Guess,
    Objective,
    Ranges,
    cast_of,
    common_fields,
    is_measure,
    is_number_text,
    is_number_unread,
    is_time_unread,
    number_unread,
    path_of,
    propose_items,
    propose_key,
    propose_objectives,
    propose_ranges,
    propose_time,
    propose_value,
    some_are_not,
    written,
)
from slidestat.infer.sampling import Sample, SampledRecord
from slidestat.infer.survey import FieldSurvey, Survey, as_object, key_text, value_at
from slidestat.options import QUANTILES
from slidestat.produce.cells import NOT_JSON
from slidestat.synopses.core.arrays import Bools, Integers
from slidestat.text import MORE, plain_detail

# The lengths of windows and lateness of a proposed topology, by the times of a topic's events.

# The out-of-orderness of a sample's events, judged as a worker judges it.

_AHEAD_MS = duration_ms(Topology.ahead, "ahead")


@dataclass(frozen=True)
class Disorder:
    """The out-of-orderness of sampled events: how far each lies behind the newest before it, int64
    ms; how many events a worker would refuse as from the future, by their records' timestamps or by
    the events around them, which do not count for the others' order; and how many ms lie between
    the first and the last event.
    """

    behind: Integers
    refused: int
    ahead: int
    length: int

    def late(self, lateness: int) -> float:
        """Return the share of events that a lateness of this many ms would refuse.

        The true share may be larger, as the newest event before another may not be in the sample.
        """
        return float((self.behind > lateness).mean()) if len(self.behind) else 0.0


def disorder(sample: Sample, path: FieldPath | None, time_format: str) -> Disorder:
    """Return the disorder of the sample's events, whose times are in the field at `path`."""
    refused = ahead = 0
    behind, firsts, lasts = [np.zeros(0, np.int64)], [], []
    for partition in range(sample.partitions):
        times, stamps = _times(sample, partition, path, time_format)
        wrong = (times - stamps > _AHEAD_MS) & (stamps > 0)
        times = times[~wrong]
        refused += int(wrong.sum())
        alone = _ahead_of_most(times)
        times = times[~alone]
        ahead += int(alone.sum())
        if len(times):
            behind.append(np.maximum.accumulate(times) - times)
            firsts.append(int(times.min()))
            lasts.append(int(times.max()))
    length = max(lasts) - min(firsts) if firsts else 0
    return Disorder(np.concatenate(behind), refused, ahead, length)


def _ahead_of_most(times: Integers) -> Bools:
    """Return which events of a partition come from a clock that is wrong: they lie further ahead of
    what most of the next 16 records reach than any lateness that is proposed covers.
    """
    size = min(RECORDS, len(times))
    if size <= 2:
        return np.zeros(len(times), bool)
    beside = np.lib.stride_tricks.sliding_window_view(times, size)
    most = size // 2 + 1
    reached = np.maximum.accumulate(np.partition(beside, size - most, axis=1)[:, size - most])
    fronts = reached[np.minimum(np.arange(len(times)), len(reached) - 1)]
    length = int(reached[-1] - reached[0])
    found: Bools = times - fronts > max(_AHEAD_MS, length // _LATENESS_OF_LENGTH)
    return found


def _times(
    sample: Sample, partition: int, path: FieldPath | None, time_format: str
) -> tuple[Integers, Integers]:
    """Return the times of a partition's events, and Kafka's timestamps of their records."""
    records = [r for r in sample.records if r.partition == partition]
    if path is None:
        stamps = np.array([r.timestamp_ms for r in records], np.int64)
        return stamps, stamps
    kind = TIME_FORMATS[time_format]
    good, stamped = [], []
    for record in records:
        try:
            good.append(msgspec.convert(value_at(as_object(record), path), kind.type | str))
        except msgspec.ValidationError:
            continue
        stamped.append(record.timestamp_ms)
    times = event_times(good, kind)
    is_time = times != NOT_A_TIME
    return times[is_time], np.array(stamped, np.int64)[is_time]


_LATENESS = ("0s", "1s", "5s", "30s", "1m", "5m", "15m", "1h", "6h", "1d", "7d")
# The share of events that may be late if they lie twice as far behind as was seen.
_MOST_LATE = 0.001
# A watermark that far behind the newest event never lets the events of a short topic be counted.
_LATENESS_OF_LENGTH = 4
_EVENTS_OF_A_WINDOW = 5
_MINUTE_MS, _DAY_MS = 60_000, 86_400_000


class Windows(NamedTuple):
    """The windows of a topology, the shortest first; the last one is its span."""

    lengths: tuple[str, str, str]
    reason: str


_WINDOWS = (
    ("1m", "5m", "1h"),
    ("5m", "1h", "6h"),
    ("15m", "1h", "1d"),
    ("1h", "6h", "7d"),
    ("6h", "1d", "7d"),
    ("1d", "7d", "30d"),
)


def propose_lateness(found: Disorder) -> tuple[str, str]:
    """Return the lateness, and what share it refuses; for a short topic, a part of its length."""
    if not found.behind.any():
        return _LATENESS[0], "all sampled events lie in order"
    fitting = [text for text in _LATENESS if _ms(text) * _LATENESS_OF_LENGTH <= found.length] or [
        _LATENESS[0]
    ]
    enough = (text for text in fitting if found.late(_ms(text) // 2) <= _MOST_LATE)
    chosen = next(enough, fitting[-1])
    notes = [f"refuses {_share(found, chosen)} of the sampled events"]
    place = _LATENESS.index(chosen)
    notes += [f"{shorter} {_share(found, shorter)}" for shorter in _LATENESS[:place][-1:]]
    if found.late(_ms(chosen)):
        longer = [text for text in _LATENESS if not found.late(_ms(text))]
        notes += [f"{longest} nothing" for longest in longer[:1]]
        notes.append(f"the topic is {_length(found.length)} long")
    return chosen, ", ".join(notes)


def propose_windows(records: int, length: int, keys: int) -> Windows:
    """Return windows in which a key has some events, of `records` in `length` ms; none longer than
    the topic, if its length is known.
    """
    if length <= 0 or not keys:
        return Windows(_WINDOWS[0], "the usual ones: the events tell no rate")
    a_minute = records / keys * _MINUTE_MS / length
    fitting = [
        lengths
        for place, lengths in enumerate(_WINDOWS)
        if place == 0 or _ms(lengths[-1]) <= length
    ]
    wide = (w for w in fitting if a_minute * _ms(w[0]) / _MINUTE_MS >= _EVENTS_OF_A_WINDOW)
    lengths = next(wide, fitting[-1])
    in_first = a_minute * _ms(lengths[0]) / _MINUTE_MS
    return Windows(
        lengths,
        f"a key has about {_about(in_first)} events in {lengths[0]}, and the topic is"
        f" {_length(length)} long",
    )


def _about(number: float) -> str:
    """Return a number with three digits, the others 0: 1,590, not 1.59e+03."""
    return f"{float(f'{number:.3g}'):,.10g}"


def _ms(text: str) -> int:
    return duration_ms(text, "length")


def _share(found: Disorder, lateness: str) -> str:
    share = found.late(_ms(lateness))
    return f"{100 * share:.2g} %" if share else "nothing"


def _length(ms: int) -> str:
    """Return a length in the largest unit of which it has at least two."""
    for unit, per_unit in (("days", 86_400_000), ("hours", 3_600_000), ("minutes", 60_000)):
        if ms >= 2 * per_unit:
            return f"{ms / per_unit:,.0f} {unit}"
    return f"{ms / 1_000:,.0f} seconds"


# Whether the records of a key lie in several partitions, as far as a sample shows.

# A partition's records may come this much later than the others', where nothing is known.
_LEAST_LATENESS = "10s"


def spread_warning(sample: Sample, path: FieldPath | None) -> str | None:
    """Return a warning that the records of a key lie in several partitions, or may; None without
    evidence. The key is in the field at `path`, or the record's own.
    """
    spread = _spread_key(sample, path)
    if spread is not None:
        found = f"The records are not partitioned by the key: those of {spread!r} lie in several."
    elif sample.partitions > 1 and any(record.key is None for record in sample.records):
        found = "There are records that have no Kafka key: those of one key may lie anywhere."
    else:
        return None
    return (
        f"{found} With `repartition = true` the workers move them by the key first; a producer that"
        " sends them under it saves this."
    )


def _spread_key(sample: Sample, path: FieldPath | None) -> str | None:
    first: dict[str, int] = {}
    for record in sample.records:
        key = _key(record, path)
        if key is not None and first.setdefault(key, record.partition) != record.partition:
            return key
    return None


def spread_lateness(lateness: Guess) -> Guess:
    """Return the lateness of a topology whose records are repartitioned, which needs one."""
    if lateness.value != "0s":
        return lateness
    return Guess(_LEAST_LATENESS, "what partitions may differ in, of which the sample says nothing")


def _key(record: SampledRecord, path: FieldPath | None) -> str | None:
    if path is None:
        return key_text(record)
    value = value_at(as_object(record), path)
    is_key = isinstance(value, str | int) and not isinstance(value, bool)
    return str(value) if is_key else None


@dataclass(frozen=True)
class Proposal:
    """A topology that `slidestat init` proposes; `warnings` are for a person to read first."""

    name: str
    source: str
    key: Guess
    time: Guess
    time_format: str
    computed: tuple[str, ...]
    value: Guess | None
    value_decimals: int | None
    value_is_signed: bool
    distinct: Guess | None
    top: Guess | None
    objectives: tuple[Objective, ...]
    ranges: Ranges | None
    lateness: Guess
    repartition: bool
    windows: Windows
    keys_seen: int
    sampled: int
    warnings: tuple[str, ...]
    source_format: str
    envelope: str


_MOST_DECIMALS = 6
# A value in an object or a list, as libraries of Python and JavaScript write it.
_NOT_FINITE = re.compile(rb"[:\[,]\s*-?(?:NaN|Infinity)\s*[,}\]]")
# Bytes of no text: no ASCII and no first byte of a character in UTF-8, or control characters that
# texts do not have.
_NO_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f\xc0\xc1\xf5-\xff]")
_COMPRESSED = re.compile(rb"\x1f\x8b\x08|\x28\xb5\x2f\xfd|\x04\x22\x4d\x18|\xff\x06\0\0sNaPpY")
_BYTES = (
    "it is no text, and has no number of a schema: it may be Avro or Protobuf alone. Its fields"
    ' cannot be guessed: write a topology with source_format = "avro" or "protobuf", and with'
    " source_schema, the file of its schema (docs/source-formats.md)"
)


def _no_objects(sample: Sample) -> SlidestatError:
    advice = "Events are JSON objects: `slidestat schema event` shows one."
    values = [record.value for record in sample.records if record.value]
    seen = Counter(filter(None, map(_trouble, values)))
    if seen:
        ((framing, count),) = seen.most_common(1)
        advice = f"Of {count:,} of them: {framing}."
    return SlidestatError(
        f"None of {len(sample.records):,} records of {sample.topic!r} that were looked at is a JSON"
        " object.",
        advice,
    )


def _trouble(value: bytes) -> str:
    """Return why a value is no JSON object, and what to do; "" where nothing is known."""
    text = value.lstrip()
    if _COMPRESSED.match(value):
        return (
            "it is compressed, and nothing decompresses it: have the producers leave that to Kafka"
            " (compression.type)"
        )
    if text.startswith(BOM_UTF8):
        return "a byte order mark is before it: have the producers write UTF-8 without one"
    if text.startswith(b'"'):
        return "it is a text, maybe JSON that was encoded twice: have the object itself sent"
    if _NOT_FINITE.search(text):
        return (
            "it has NaN or Infinity, which JSON does not have: have the producers write null"
            " (Python's json.dumps refuses them with allow_nan=False)"
        )
    if text.startswith(b"{"):
        try:
            msgspec.json.decode(text, type=msgspec.Raw)
        except NOT_JSON as error:
            if plain_detail(str(error)).startswith(MORE):
                return f"{MORE}: a record is one event, so have each sent alone"
        else:
            return (
                "it has a whole number of more digits than Python reads: have the producers write a"
                " text of it"
            )
    return other_framing(value) or (_BYTES if _NO_TEXT.search(value) else "")


def _as_number(
    value: Guess, chosen: FieldSurvey, found: Survey, warnings: list[str]
) -> tuple[Guess, tuple[str, ...]]:
    """Return the value as a statistic reads it; and the computed field, if its field has texts."""
    if is_number_text(chosen):
        name, text = cast_of(chosen, found)
        warnings.append(
            f"{field_text(chosen.path)!r} is a text of numbers, which {text!r} reads. A text"
            " that is no number makes a dead letter; with try_cast it is left out."
        )
        return Guess(written((name,)), value.reason), (text,)
    if chosen.numbers < chosen.present:
        refused = some_are_not(chosen, chosen.present - chosen.numbers, "numbers")
        name, text = cast_of(chosen, found, "try_cast")
        warnings.append(
            f"{refused} With computed = ['{text}'] and value_field = '{name}' numbers in texts are"
            " read, and what is no number is left out."
        )
    return value, ()


def propose(
    sample: Sample,
    found: Survey,
    name: str,
    ask: Ask | None = None,
    given: Mapping[str, str] = MappingProxyType({}),
) -> Proposal:
    """Return the topology that fits the sample best; `ask` is asked where several fields would do.
    `given` are the fields of the "key", the "time" and the "value" that are known.

    Raises SlidestatError if no record is a JSON object, or none has a field that is given.
    """
    if not found.objects:
        raise _no_objects(sample)
    warnings: list[str] = []
    doubts = Doubts(ask, warnings, given)
    if found.others:
        warnings.append(
            f"{found.others:,} of {len(sample.records):,} sampled records are no JSON objects:"
            " they will be dead letters."
        )
    key, keys_seen = propose_key(sample, found, doubts)
    has_envelope = bool(sample.envelope)
    time, time_format, time_path = propose_time(found, doubts, has_envelope=has_envelope)
    order = disorder(sample, time_path, time_format)
    warnings += _of_wrong_clocks(order, len(sample.records))
    taken = {key.value, time.value}
    numbers = [f for f in common_fields(found) if is_measure(f) and written(f.path) not in taken]
    value = propose_value(numbers, found, doubts)
    chosen = found.fields[path_of(value.value)] if value is not None else None
    computed: tuple[str, ...] = ()
    if value is not None and chosen is not None:
        value, computed = _as_number(value, chosen, found, warnings)
    texts = [f for f in common_fields(found) if f.texts == f.present and not f.formats]
    texts = [f for f in texts if written(f.path) not in taken and f.longest <= 1_000]
    warnings += [number_unread(f) for f in texts if is_number_unread(f)]
    texts = [f for f in texts if not (is_number_text(f) or is_number_unread(f))]
    texts = [f for f in texts if not is_time_unread(f)]
    distinct, top = propose_items(texts, found)
    lateness = Guess(*propose_lateness(order))
    spread = spread_warning(sample, None if key.value == RECORD_KEY else path_of(key.value))
    if spread is not None:
        lateness = spread_lateness(lateness)
        warnings.append(spread)
    return Proposal(
        name=name,
        source=sample.topic,
        key=key,
        time=time,
        time_format=time_format,
        computed=computed,
        value=value,
        value_decimals=_decimals_of(chosen) if chosen is not None else 0,
        value_is_signed=bool(chosen.negatives) if chosen is not None else False,
        distinct=distinct,
        top=top,
        objectives=tuple(propose_objectives(found, value)),
        ranges=propose_ranges(numbers, found, value),
        lateness=lateness,
        repartition=spread is not None,
        windows=propose_windows(sample.topic_records, order.length, keys_seen),
        keys_seen=keys_seen,
        sampled=len(sample.records),
        warnings=tuple(warnings),
        source_format=sample.source_format,
        envelope=sample.envelope,
    )


def _of_wrong_clocks(order: Disorder, sampled: int) -> Iterator[str]:
    """Yield warnings of events that will be refused, as their times are no event's."""
    if order.refused:
        yield (
            f"{order.refused:,} of {sampled:,} sampled events lie more than {Topology.ahead} after"
            " the time when they were produced: they will be dead letters."
        )
    if order.ahead:
        yield (
            f"{order.ahead:,} of {sampled:,} sampled events lie far ahead of those around them, as"
            " of a clock that is wrong: they will be dead letters, and lateness and windows are"
            " proposed without them."
        )


def _decimals_of(seen: FieldSurvey) -> int | None:
    """Return the decimals to keep of a field's values, so that none of them is too large for its
    sum or mean; None if some are for any.
    """
    kind = Mean if seen.negatives else Sum
    fewer = range(min(seen.decimals, _MOST_DECIMALS), -1, -1)
    return next((n for n in fewer if seen.largest <= kind(decimals=n).limits.most), None)


def toml_text(proposal: Proposal) -> str:
    """Return the text of the file."""
    return "".join(f"{line}\n" for line in _lines(proposal))


def _lines(proposal: Proposal) -> Iterator[str]:
    yield f"# Proposed from {proposal.sampled:,} records of {proposal.source}: read and change it."
    yield f"name = {_text(proposal.name)}"
    yield f"source = {_text(proposal.source)}"
    if proposal.source_format != "json":
        yield f"source_format = {_text(proposal.source_format)}"
    if proposal.envelope:
        yield f"envelope = {_text(proposal.envelope)}  # events have the fields of the row"
    if proposal.computed:
        yield f"computed = [{', '.join(map(_text, proposal.computed))}]"
    yield _field("key_field", proposal.key)
    yield _field("time_field", proposal.time)
    if proposal.time_format != "ms":
        yield f"time_format = {_text(proposal.time_format)}"
    if proposal.value is not None:
        yield _field("value_field", proposal.value)
    shortest, *_, span = proposal.windows.lengths
    yield f"# {proposal.windows.reason[0].upper()}{proposal.windows.reason[1:]}."
    last = '; or "100 events", of a key\'s last ones'
    yield f"span = {_text(span)}  # the longest window that can be asked for{last}"
    windows = ", ".join(map(_text, proposal.windows.lengths))
    yield f"windows = [{windows}]  # those that are written out"
    yield f'every = {_text(shortest)}  # or, of windows of events, after so many: "10 events"'
    yield _field("lateness", proposal.lateness)
    if proposal.repartition:
        yield "repartition = true  # the records are not partitioned by the key"
    yield ""
    yield '# More, without the "# " before it: docs/declare-a-topology.md, rows.md and alerts.md.'
    if proposal.envelope:
        yield "# where = \"op in ('c', 'r')\"  # new rows; else each change counts, deletions too"
    elif condition := _condition(proposal):
        yield f"# where = {_text(condition)}  # such events are counted, and no others"
    own = "today" if duration_ms(span, "span") > _DAY_MS else "this_hour"
    yield f'# time_zone = "UTC"  # for windows = ["{own}"], by its clocks: calendar-windows.md'
    takes_no_top = " (without top)" if proposal.top is not None else ""
    yield f'# output_shape = "rows"  # plain columns, as sinks and SQL take them{takes_no_top}'
    yield "# exactly_once = true  # each record once, for readers of what is committed"
    yield '# emit = "always"  # at every tick; "change": where the newest record is no longer true'
    yield f"# having = {_text(f'count_{shortest} >= 100')}  # only where this holds, and once after"
    yield '# expected = ["..."]  # keys that the alert below is also for if they never came'
    derived = [f"count_{shortest} / count_{span} as recent"]
    if proposal.value is not None:
        derived = [f"p99_{shortest} / p50_{shortest} as tail"]
    if 2 * duration_ms(shortest, "windows") <= duration_ms(span, "span"):
        derived.append(f"count_{shortest} / ago(count_{shortest}, '{shortest}') as growth")
    texts = ", ".join(map(_text, derived))
    yield f"# derived = [{texts}]  # figures computed from others, with bounds"
    yield from _statistics(proposal)
    yield from _alerts(proposal, shortest, span)


def _statistics(proposal: Proposal) -> Iterator[str]:
    """Yield the lines of statistics, those that are left to choose as comments."""
    yield from _statistic("count")
    if proposal.value is not None:
        if proposal.value_decimals is not None:
            kind = "mean" if proposal.value_is_signed else "sum"
            yield from _statistic(kind, f"decimals = {proposal.value_decimals}")
        yield from _statistic("quantile", f"quantiles = {list(QUANTILES)}")
        yield from _statistic("maximum")
    if proposal.distinct is not None:
        yield from _statistic("distinct", _field("field", proposal.distinct))
    if proposal.top is not None:
        limit = "limit = 5  # or share = 0.01: all items with so much of the window's events"
        yield from _statistic("top", _field("field", proposal.top), limit)
        if proposal.value is not None and not proposal.value_is_signed:
            yield f"# {_field('weight', Guess(proposal.value.value, 'by how much of it came'))}"
        any_item = Guess(proposal.top.value, "how often any item came, asked for later")
        yield from _left_to_choose(_statistic("item_counts", _field("field", any_item)))
    if condition := _condition(proposal):
        some = _statistic("count", 'name = "some"', f"where = {_text(condition)}")
        yield from _left_to_choose(some)
    if proposal.ranges is not None:
        by, edges = proposal.ranges
        parted = _statistic("sum_histogram", _field("by", by), f"edges = {list(edges)}")
        yield from _left_to_choose(parted)


def _alerts(proposal: Proposal, shortest: str, span: str) -> Iterator[str]:
    """Yield the lines of alerts, as comments."""
    when = "count >= 100" if proposal.value is None else "p99 > 100 and count >= 100"
    yield ""
    yield "# [[alerts]]  # a record when it begins to hold, and when it no longer does"
    yield '# name = "much"'
    yield f"# when = {_text(when)}"
    yield f"# window = {_text(shortest)}"
    yield ""
    yield "# [[alerts]]  # a key without events; with idle also where nobody else sends"
    yield '# name = "silent"'
    yield '# when = "count = 0"'
    yield f"# window = {_text(shortest)}"
    if _condition(proposal):
        yield ""
        yield "# [[alerts]]  # what came last differs by more than chance makes it"
        yield '# name = "changed"'
        yield '# change = "some / count"'
        yield f"# window = {_text(span)}"
    yield from _objectives(proposal, span)
    first = f"count_{shortest}" if proposal.value is None else f"p99_{shortest}"
    yield ""
    yield f"# Which keys are first: `slidestat top FILE {first}`, or at each tick [[rankings]]"
    yield "# without exactly_once: docs/rankings.md."


def _objectives(proposal: Proposal, span: str) -> Iterator[str]:
    usual = Slo(name="usual", good="good", objective=0.999).burn_alerts
    most = duration_ms(span, "span")
    fits = [alert.text for alert in usual if duration_ms(alert.long, "alerts") <= most]
    for name, good, share in proposal.objectives:
        yield ""
        yield "# [[slos]]  # burn rates, what is left of the budget, and alerts: docs/slos.md"
        yield f"# name = {_text(name)}"
        yield f"# good = {_text(good)}"
        yield f"# objective = {share}"
        if len(fits) < len(usual):
            yield f"# alerts = [{', '.join(map(_text, fits))}]  # those that fit the span"


def _left_to_choose(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        yield f"# {line}" if line else line


def _condition(proposal: Proposal) -> str:
    """Return an example of a condition on fields that events have; "" where no field is known."""
    if proposal.value is not None:
        for text in proposal.computed:  # A condition reads what the events have.
            return f"{text.rpartition(' as ')[0]} > 100"
        return f"{_sql(proposal.value)} > 100"
    return "" if proposal.top is None else f"{_sql(proposal.top)} is not null"


def _sql(guess: Guess) -> str:
    return text_of(FieldValue(path_of(guess.value)))


def _statistic(kind: str, *parameters: str) -> Iterator[str]:
    yield ""
    yield "[[statistics]]"
    yield f"kind = {_text(kind)}"
    yield from parameters


def _field(name: str, guess: Guess) -> str:
    if isinstance(guess.value, str):
        return f"{name} = {_text(guess.value)}  # {guess.reason}"
    return f"{name} = [{', '.join(map(_text, guess.value))}]  # {guess.reason}"


def _text(value: str) -> str:
    """Return a TOML string: JSON's escapes are valid in TOML, which needs one more."""
    return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")
