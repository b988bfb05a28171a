"""Rankings recomputed: which place each key has by its exact figure, at the ticks of a referee.

First each key is gone through: its exact figure at each tick that has a ranking and whose span has
an event of it, and what it is listed with. Then what keys have claimed at a tick is compared with
the record. Few keys go there: a key that is exactly below the bounds of all places that are taken
is before none of them, so it is only counted.

Where a figure is right by chance alone, so are places by it: figures are judged, places are not.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import islice
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Row, functions as f
from pyspark.sql.types import StructType

from slidestat.schemas.alert import Certainty
from slidestat.schemas.emission import Figure
from slidestat.schemas.query import RankedKey
from slidestat.schemas.ranking import Ranking, decode_ranking
from slidestat.spark.audit.declaration import (
    Declaration,
    DeclaredRanking,
    DeclaredStatistic,
    least_confidence,
    promises_less,
)
from slidestat.spark.audit.derived import Having, Truth, computed, figure_of
from slidestat.spark.audit.emissions import AuditedRankings
from slidestat.spark.audit.exact_key import ExactKey
from slidestat.spark.audit.key import (
    BEFORE_ALL,
    Emitted,
    Finding,
    KeyEvents,
    KeyJudge,
    drop_some,
    partition_of,
    place_of,
)
from slidestat.spark.audit.verdict import BY_CHANCE, judge, nearest
from slidestat.spark.audit.workers import (
    FINDINGS_TOGETHER,
    Auditor,
    FigureRow,
    finding_table,
    followed,
)
from slidestat.spark.lake.wire_columns import struct_type
from slidestat.synopses.core.arrays import Bools, Floats, Integers

_, _OFF = BY_CHANCE


class Written(NamedTuple):
    """Bounds from the rankings of one name, by tick: the least figure that a key may have so that
    it is before a listed one, float64[n], and the last listed figure; -inf and None where places
    are to spare. Where the smallest lead, `least` is of negative figures.
    """

    ticks: Integers
    least: Floats
    last: list[Figure | None]


def _sign(ranking: DeclaredRanking) -> int:
    return 1 if ranking.order == "largest" else -1


class Claim(msgspec.Struct, frozen=True, array_like=True):
    """The exact figure of a key at a tick: whether it exists and its condition holds, None if that
    is not known. Where the smallest lead, the figure is negative; `is_exact` if no double is nearer
    to another number. A key is counted among those that surely have a place, and that may have one.

    Without a key: the counts of others, which are before none that is listed.
    """

    key: str | None
    partition: int
    sure: int
    may: int
    figure: float = 0.0
    is_exact: bool = True
    exists: bool | None = True
    holds: bool | None = True
    is_left_out: bool = False


Counts = dict[tuple[str, int, int], list[int]]
"""By ranking, tick and partition: how many keys surely have a place, and may have one."""


class KnownTicks(NamedTuple):
    """The rising ticks of rankings' records, by name: `own` by one declaration, `of_all` by any."""

    own: Mapping[str, Integers]
    of_all: Mapping[str, Integers]

    def of_any(self) -> Integers:
        """Return the ticks at which any ranking has a record by the declaration."""
        return np.unique(np.concatenate([_NO_TICKS, *self.own.values()]))


class _Listing(msgspec.Struct, frozen=True):
    """A place in a ranking, as a record of the ranking has it."""

    ranking: str
    listed: RankedKey


class _Asked:
    """A declared ranking, as one key after another is asked for it."""

    def __init__(self, declaration: Declaration, ranking: DeclaredRanking) -> None:
        self.declared = ranking
        self.by = ranking.by
        statistics = {statistic.label: statistic for statistic in declaration.statistics}
        self.statistic: DeclaredStatistic | None = None
        self.figure = Figure(ranking.by.name, None, None, None)
        if all(it.name != ranking.by.name for it in declaration.derived):
            [part] = ranking.by.parts
            self.statistic = statistics[part.label]
            self.figure = figure_of(part, of_events=False)
        self.is_by_chance = any(
            least_confidence(statistics[part.label]) < 1 for part in ranking.by.parts
        )
        self.reads_age = any(
            statistics[part.label].kind == "age_of_last" for part in ranking.by.parts
        )
        self._having = None
        if ranking.having:
            condition = {"having": ranking.having, "having_figures": ranking.having_figures}
            self._having = Having(msgspec.structs.replace(declaration, **condition))

    def holds(self, key: ExactKey, tick: int, *, knows_all: bool) -> Truth:
        """Return what the condition for a place is of a key's exact figures."""
        if self._having is None:
            return Truth(True, is_certain=True)
        if self._having.reads_all and not knows_all:
            return Truth(None, is_certain=False)
        return self._having.at(key, tick)


class KeyInRankings:
    """The audit of one key in the rankings of one declaration, while its events go by in order of
    time (`RunningAudit`). With `counts`, these grow instead of a claim of each key.
    """

    def __init__(
        self,
        judge_of_key: KeyJudge,
        partition: int,
        asked: Sequence[_Asked],
        written: Mapping[str, Written],
        counts: Counts,
        known_ticks: KnownTicks,
        *,
        knows_all: bool,
    ) -> None:
        self._judge = judge_of_key
        self._partition = partition
        self._asked = asked
        self._written = written
        self._counts = counts
        self._known_ticks = known_ticks
        self._of_any = known_ticks.of_any()
        self._knows_all = knows_all
        self._key = ExactKey.without_events(judge_of_key.declaration)
        self._listed: dict[tuple[str, int], RankedKey] = {}
        self._looked_at = BEFORE_ALL

    def go_on(
        self, events: KeyEvents, emitted: Iterable[Emitted], reached_ms: int
    ) -> Iterator[tuple[str, int, Claim] | Finding]:
        """Take the next events of the key and the places that it is listed at, up to `reached_ms`,
        and yield what it claims at the ticks before, and what is wrong with its figures.
        """
        self._key.extend(*events)
        for one in emitted:
            listing = msgspec.json.decode(one.value, type=_Listing)
            self._listed[listing.ranking, one.tick] = listing.listed
        yield from self._look_at(reached_ms)
        span = self._judge.declaration.span
        droppable = int(np.searchsorted(self._key.times, reached_ms - span))
        drop_some(self._key, droppable, self._judge.declaration)

    def end(self, events: KeyEvents) -> Iterator[tuple[str, int, Claim] | Finding]:
        """Take the last events, and yield what is left."""
        self._key.extend(*events)
        yield from self._look_at(-BEFORE_ALL)

    def _look_at(self, until_ms: int) -> Iterator[tuple[str, int, Claim] | Finding]:
        due = self._due(until_ms)
        for asked in self._asked:
            name = asked.declared.name
            if (written := self._written.get(name)) is not None:
                yield from self._at_records(asked, written, until_ms)
            yield from self._without_record(name, due)
        self._looked_at = until_ms

    def _at_records(
        self, asked: _Asked, written: Written, until_ms: int
    ) -> Iterator[tuple[str, int, Claim] | Finding]:
        name = asked.declared.name
        start, stop = np.searchsorted(written.ticks, [self._looked_at, until_ms]).tolist()
        ticks = written.ticks[start:stop]
        is_live = self._has_events(ticks).tolist()
        for row, tick, is_there in zip(range(start, stop), ticks.tolist(), is_live, strict=True):
            listed = self._listed.pop((name, tick), None)
            if is_there:
                yield from self._at(asked, tick, row, listed)
            elif listed is not None:
                violation = f"{name}: listed, without an event in the span"
                yield Finding(self._judge.name, tick, violation=violation)

    def _has_events(self, ticks: Integers) -> Bools:
        """Return at which ticks the key has an event in the span."""
        times, span = self._key.times, self._judge.declaration.span
        found: Bools = np.searchsorted(times, ticks - span) < np.searchsorted(times, ticks)
        return found

    def _due(self, until_ms: int) -> Integers:
        """Return the ticks at which each ranking has a record: those behind an event, and those at
        which any ranking has one.
        """
        start, stop = np.searchsorted(self._of_any, [self._looked_at, until_ms])
        of_any = self._of_any[start:stop]
        every = self._judge.declaration.every_ms
        after = (self._key.times // every + 1) * every
        is_new = (after >= self._looked_at) & (after < until_ms)
        return np.union1d(after[is_new], of_any[self._has_events(of_any)])

    def _without_record(self, name: str, due: Integers) -> Iterator[tuple[str, int, Claim]]:
        """Yield the ticks that are due without a record of a ranking: between its own first and
        last by the declaration, or, if it has none, those of the others.
        """
        own = self._known_ticks.own.get(name, _NO_TICKS)
        known = own if len(own) else self._of_any
        if not len(known):
            return
        is_between = (due > known[0]) & (due < known[-1])
        known = self._known_ticks.of_all.get(name, _NO_TICKS)
        for tick in np.setdiff1d(due[is_between], known).tolist():
            yield name, tick, Claim(self._judge.name, self._partition, 1, 1)

    def _at(
        self, asked: _Asked, tick: int, row: int, listed: RankedKey | None
    ) -> Iterator[tuple[str, int, Claim] | Finding]:
        if listed is not None:
            yield from self._of_figure(asked, tick, listed.figure)
        if asked.is_by_chance:
            return
        name, written = asked.declared.name, self._written[asked.declared.name]
        parts = self._judge.exact_parts(asked.by, self._key, tick, asked.figure)
        exact = None if parts is None else computed(asked.by.expression, parts)
        truth = asked.holds(self._key, tick, knows_all=self._knows_all)
        # An age beyond the window is given now and then.
        exists = None if parts is None or (asked.reads_age and exact is None) else exact is not None
        turned = None if exact is None else _sign(asked.declared) * exact
        figure = 0.0 if turned is None else nearest(turned)
        is_left_out = listed is None and self._is_left_out(asked, tick, written.last[row], figure)
        claim = Claim(
            self._judge.name,
            self._partition,
            sure=int(bool(exists and truth.holds)),
            may=int(self._may_have(asked, tick, truth, exists)),
            figure=figure,
            is_exact=turned is None or turned == Fraction(figure),
            exists=exists,
            holds=truth.holds,
            is_left_out=is_left_out and truth.holds is True and exists is True,
        )
        is_before = truth.holds is not False and (
            exists is None or (exists and figure >= written.least[row])
        )
        if listed is not None or is_before or claim.is_left_out:
            yield name, tick, claim
        else:
            counts = self._counts[name, tick, self._partition]
            counts[0] += claim.sure
            counts[1] += claim.may

    def _may_have(self, asked: _Asked, tick: int, truth: Truth, exists: bool | None) -> bool:
        """Return whether the key may be counted among those that may have a place."""
        if truth.holds is False and truth.is_certain:
            return False
        if exists is not False or asked.statistic is None or asked.statistic.is_landmark:
            return True
        window = self._judge.window(self._key, asked.statistic, asked.figure, tick)
        return window is None or self._key.taken(asked.statistic, window) > 0

    def _is_left_out(self, asked: _Asked, tick: int, last: Figure | None, exact: float) -> bool:
        """Return whether no estimate as near as promised could rank behind the last place."""
        statistic = asked.statistic
        if last is None or last.estimate is None or statistic is None or asked.reads_age:
            return False
        if _sign(asked.declared) * last.estimate >= exact or last.counted_from_ms is not None:
            return False
        window = self._judge.window(self._key, statistic, last, tick)
        if window is None:
            return False
        return judge(self._key, statistic, last, window, tick).violation == _OFF

    def _of_figure(self, asked: _Asked, tick: int, figure: Figure) -> Iterator[Finding]:
        """Yield what is found of the figure that the key is listed with."""
        name, key, statistic = asked.declared.name, self._judge.name, asked.statistic
        # Windows of the calendar have another length at each tick.
        named = figure if figure.window is None else msgspec.structs.replace(figure, window_ms=None)
        if place_of(named) != place_of(asked.figure):
            yield Finding(key, tick, violation=f"{name}: listed with another figure")
        elif statistic is None:
            yield from self._judge.derived(asked.by, self._key, tick, figure)
        elif (window := self._judge.window(self._key, statistic, figure, tick)) is not None:
            if less := promises_less(statistic, figure):
                yield Finding(key, tick, violation=f"{name}: {statistic.label} {less}")
            verdict = judge(self._key, statistic, figure, window, tick)
            yield Finding(key, tick, figure=figure, verdict=verdict, violation=verdict.violation)


# The claims of keys at a tick, compared with the record.


def judged_ranking(
    declaration: Declaration, tick: int, record: Ranking | None, claims: Sequence[Claim]
) -> Iterator[Finding]:
    """Yield the violations of a whole ranking; of None, that it is missing though keys claim it."""
    if record is None:
        yield Finding(claims[0].key or "", tick, violation="no ranking is there")
        return
    name = record.ranking
    ranking = next((it for it in declaration.rankings if it.name == name), None)
    if ranking is None:
        yield Finding(name, tick, violation="a ranking that is not declared")
        return
    if fault := _own_fault(ranking, record):
        yield Finding(name, tick, violation=fault)
        return
    present = {partition_of(party) for party in record.parties}
    claims = [one for one in claims if one.partition in present]
    is_of_part = any(it.lost or it.figure.counted_from_ms is not None for it in record.places)
    if is_of_part or _Asked(declaration, ranking).is_by_chance:
        return
    sure, may = sum(one.sure for one in claims), sum(one.may for one in claims)
    if not sure <= record.keys <= may:
        violation = f"{record.keys} keys may have a place, and exactly {sure} have one, of {may}"
        yield Finding(name, tick, violation=violation)
    listed = {(it.key, it.source_partition): it for it in record.places}
    exact = _ExactPlaces([one for one in claims if one.key is not None])
    sign = _sign(ranking)
    for row, one in enumerate(exact.claims):
        place = listed.get((one.key or "", one.partition))
        violation = ""
        if place is not None:
            violation = _misplaced(place, exact, row, sign)
        elif one.is_left_out:
            violation = f"left out, though {ranking.order[:-3]}er than the last place"
        elif len(record.places) < ranking.size and one.sure and _has_estimate(ranking):
            violation = "left out, with places to spare"
        if violation:
            yield Finding(one.key or "", tick, violation=f"{name}: {violation}")


def _has_estimate(ranking: DeclaredRanking) -> bool:
    """Return whether a figure that exists has an estimate: those of estimates may be NULL."""
    return ranking.by.expression == '"0"'


def _own_fault(ranking: DeclaredRanking, record: Ranking) -> str:
    """Return what is wrong with a record whatever the events were, "" if nothing is."""
    declared = (ranking.by.name, ranking.order, ranking.size, ranking.written_having)
    if (record.by, record.order, record.size, record.having) != declared:
        return f"not declared: {record.size} {record.order} by {record.by} {record.having}".rstrip()
    places = record.places
    if len(places) > min(ranking.size, record.keys):
        return f"{len(places)} places, of {ranking.size} for {record.keys} keys"
    if len({(it.key, it.source_partition) for it in places}) < len(places):
        return "a key has two places"
    sign = _sign(ranking)
    order = [(-sign * (it.figure.estimate or 0.0), it.key, it.source_partition) for it in places]
    if any(it.figure.estimate is None for it in places) or order != sorted(order):
        return "places are not in the order of their figures and keys"
    for number, it in enumerate(places, 1):
        last = math.inf if it.last_place is None else it.last_place
        is_certain = it.certainty is Certainty.CERTAIN, it.membership is Certainty.CERTAIN
        if (
            (it.place, is_certain) != (number, (it.first_place == last, it.last_place is not None))
            or not 1 <= it.first_place <= number <= last
            or it.window_end_ms != record.window_end_ms
        ):
            return f"place {number} contradicts itself"
    return ""


class _ExactPlaces:
    """The order of keys by exact figures, as far as it is known."""

    def __init__(self, claims: Sequence[Claim]) -> None:
        self.claims = sorted(claims, key=lambda it: (it.key, it.partition))
        self._figures = np.array([it.figure for it in self.claims], float)
        self._are_exact = np.array([it.is_exact for it in self.claims], bool)
        self._are_known = np.array([it.exists is True for it in self.claims], bool)
        self._sure = np.array([bool(it.sure) for it in self.claims], bool)
        self._may = np.array(
            [it.holds is not False and it.exists is not False for it in self.claims], bool
        )

    def of(self, row: int) -> tuple[int, int]:
        """Return the first and the last place that a key may have exactly."""
        own = self._figures[row]
        is_equal = self._figures == own
        are_earlier = np.arange(len(self.claims)) < row
        is_tie: Bools = is_equal & self._are_exact & self._are_exact[row]
        is_larger = self._figures > own
        is_before = self._are_known & (is_larger | (is_tie & are_earlier))
        may_be = is_larger | (is_equal & ~is_tie) | (is_tie & are_earlier) | ~self._are_known
        may_be[row] = False
        first = 1 + int(np.count_nonzero(is_before & self._sure))
        return first, 1 + int(np.count_nonzero(may_be & self._may))


def _misplaced(listed: RankedKey, exact: _ExactPlaces, row: int, sign: int) -> str:
    """Return the violation if a key is not between the places that the record gives."""
    claim = exact.claims[row]
    if claim.holds is False or claim.exists is False:
        return "" if listed.last_place is None else "surely listed, and has no place"
    ends = listed.figure.lower, listed.figure.upper
    is_inside = all(
        end is None or side * end <= side * sign * claim.figure
        for side, end in zip((1, -1), ends, strict=True)
    )
    if claim.exists is None or not is_inside:
        return ""  # Its figure is not known, or a violation itself.
    first, last = exact.of(row)
    said = math.inf if listed.last_place is None else listed.last_place
    if first <= said and listed.first_place <= last:
        return ""
    found = f"{first}" if first == last else f"{first} to {last}"
    between = f"{listed.first_place} to {'?' if listed.last_place is None else listed.last_place}"
    return f"place {listed.place}, said to be {between}, is exactly {found}"


# The passes over a lake.

_NO_TICKS: Integers = np.zeros(0, np.int64)
_CLAIMS = struct_type(FigureRow).add("ranking", "string").add("claim", "binary")
_AT_TICK = "ranking", "window_end_ms"
_FACTS = "declaration string, ranking string, tick long, least double, last binary"
_PLACES = (
    "source_partition int, event_key string, window_end_ms long, place long, declaration string,"
    " value binary"
)


def audited_rankings(
    declarations: Mapping[str, Declaration],
    events: DataFrame,
    emissions: AuditedRankings,
    complete_from_ms: int,
    judged_keys: Callable[[DataFrame, DataFrame, Auditor, StructType], DataFrame],
) -> DataFrame:
    """Return the findings, `FigureRow`, about final rankings by declarations that read the same of
    events; those that begin before `complete_from_ms` are left out. `judged_keys` runs an audit
    over events and what is written of their keys.
    """
    span = max(one.span for one in declarations.values())
    records = (
        emissions.rows.where(f.col("declaration").isin(*declarations))
        .groupBy(f.col("event_key").alias("ranking"), "window_end_ms")
        .agg(
            f.min_by(f.struct("value", "declaration"), "place").alias("first"),
            (f.count_distinct("value") > 1).alias("differs"),
        )
        .select(*_AT_TICK, "first.value", "first.declaration", "differs")
        .where(f.col("window_end_ms") >= complete_from_ms + span)
        .persist()
    )
    known: dict[str, dict[str, list[Row]]] = {}
    facts = records.mapInArrow(_facts, _FACTS).orderBy("tick")
    for row in facts.collect():
        known.setdefault(row.declaration, {}).setdefault(row.ranking, []).append(row)
    written = {
        mark: {name: _written(rows) for name, rows in of.items()} for mark, of in known.items()
    }
    known_ticks: dict[str, dict[str, list[int]]] = {}
    # Where parties were absent it is not known which records should be there.
    if not emissions.absences():
        for row in emissions.ticks().distinct().orderBy("window_end_ms").collect():
            of_mark = known_ticks.setdefault(row.declaration, {})
            of_mark.setdefault(row.event_key, []).append(row.window_end_ms)
    claims = judged_keys(
        events,
        records.mapInArrow(_places, _PLACES),
        _auditor(declarations, written, known_ticks, complete_from_ms),
        _CLAIMS,
    ).persist()
    named = list(FigureRow.__struct_fields__)
    whole = records.select(*_AT_TICK, "value", "declaration", "differs").unionByName(
        claims.where("claim IS NOT NULL").select(*_AT_TICK, f.col("claim").alias("value")),
        allowMissingColumns=True,
    )
    verdicts = whole.groupBy(*_AT_TICK).applyInArrow(
        _judge_of(declarations), struct_type(FigureRow)
    )
    return claims.where("claim IS NULL").select(*named).unionByName(verdicts)


def _decoded(value: bytes) -> Ranking | None:
    try:
        return decode_ranking(value)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _facts(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = []
        for row in batch.to_pylist():
            ranking = _decoded(row["value"])
            if ranking is None:
                continue
            is_full = len(ranking.places) == ranking.size
            figures = [it.figure for it in ranking.places] if is_full else []
            if ranking.order == "largest":
                ends = [-math.inf if it.lower is None else it.lower for it in figures]
            else:
                ends = [-math.inf if it.upper is None else -it.upper for it in figures]
            rows.append(
                {
                    "declaration": row["declaration"],
                    "ranking": ranking.ranking,
                    "tick": ranking.window_end_ms,
                    "least": min(ends, default=-math.inf),
                    "last": msgspec.json.encode(figures[-1]) if figures else None,
                }
            )
        yield from _batches(rows, _FACTS)


def _written(rows: Sequence[Row]) -> Written:
    return Written(
        np.array([row.tick for row in rows], np.int64),
        np.array([row.least for row in rows], float),
        [None if it.last is None else msgspec.json.decode(it.last, type=Figure) for it in rows],
    )


def _places(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = [
            {
                "source_partition": it.source_partition,
                "event_key": it.key,
                "window_end_ms": ranking.window_end_ms,
                "place": it.place,
                "declaration": row["declaration"],
                "value": msgspec.json.encode(_Listing(ranking.ranking, it)),
            }
            for row in batch.to_pylist()
            if (ranking := _decoded(row["value"])) is not None
            for it in ranking.places
        ]
        yield from _batches(rows, _PLACES)


def _batches(rows: list[dict[str, object]], columns: str) -> list[pa.RecordBatch]:
    kinds = {"string": pa.string(), "long": pa.int64(), "int": pa.int32(), "double": pa.float64()}
    fields = [
        (name, kinds.get(kind, pa.binary()))
        for name, kind in (it.split() for it in columns.split(","))
    ]
    batches: list[pa.RecordBatch] = pa.Table.from_pylist(rows, pa.schema(fields)).to_batches()
    return batches


def _auditor(
    declarations: Mapping[str, Declaration],
    written: Mapping[str, Mapping[str, Written]],
    known_ticks: Mapping[str, Mapping[str, Sequence[int]]],
    complete_from_ms: int,
) -> Auditor:
    """Return the audit of keys that come one after another."""

    def claimed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        counts: Counts = defaultdict(lambda: [0, 0])
        asked = {
            mark: [_Asked(one, it) for it in one.rankings] for mark, one in declarations.items()
        }
        known = {
            mark: {name: np.array(ticks, np.int64) for name, ticks in of_mark.items()}
            for mark, of_mark in known_ticks.items()
        }
        of_all = {
            name: np.unique(np.concatenate([it.get(name, _NO_TICKS) for it in known.values()]))
            for name in {name for of_mark in known.values() for name in of_mark}
        }

        def begin(partition: int, name: str) -> list[KeyInRankings]:
            return [
                KeyInRankings(
                    KeyJudge(one, name, BEFORE_ALL, complete_from_ms),
                    partition,
                    asked[mark],
                    written.get(mark, {}),
                    counts,
                    KnownTicks(known.get(mark, {}), of_all),
                    knows_all=complete_from_ms <= 0,
                )
                for mark, one in declarations.items()
            ]

        names = next(iter(declarations.values())).columns
        found = followed(batches, names, begin)
        while some := list(islice(found, FINDINGS_TOGETHER)):
            yield from _claim_table(some).to_batches()
        rest = [
            (name, tick, Claim(None, partition, of[0], of[1]))
            for (name, tick, partition), of in counts.items()
        ]
        yield from _claim_table(rest).to_batches()

    return claimed


def _claim_table(found: Sequence[tuple[str, int, Claim] | Finding]) -> pa.Table:
    findings = finding_table([it for it in found if isinstance(it, Finding)])
    claims = [it for it in found if not isinstance(it, Finding)]
    columns = [("window_end_ms", pa.int64()), ("ranking", pa.string()), ("claim", pa.binary())]
    of_claims = {
        "window_end_ms": [tick for _, tick, _ in claims],
        "ranking": [name for name, _, _ in claims],
        "claim": [msgspec.msgpack.encode(claim) for _, _, claim in claims],
    }
    tables = (findings, pa.table(of_claims, pa.schema(columns)))
    return pa.concat_tables(tables, promote_options="default")  # With null for what one lacks.


def _judge_of(declarations: Mapping[str, Declaration]) -> Callable[[pa.Table], pa.Table]:
    def judged(rows: pa.Table) -> pa.Table:
        [tick] = set(rows.column("window_end_ms").to_pylist())
        record, declaration, findings = None, next(iter(declarations.values())), []
        claims: list[Claim] = []
        for row in rows.to_pylist():
            if row["declaration"] is None:
                claims.append(msgspec.msgpack.decode(row["value"], type=Claim))
                continue
            declaration, record = declarations[row["declaration"]], _decoded(row["value"])
            if record is None:
                findings.append(Finding(row["ranking"], tick, violation="no ranking"))
            if row["differs"]:
                violation = "written twice, differently"
                findings.append(Finding(row["ranking"], tick, violation=violation))
        if record is not None or not findings:
            findings += judged_ranking(declaration, tick, record, claims)
        return finding_table(findings)

    return judged
