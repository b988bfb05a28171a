"""Topologies and streams that the laws of a partition are tried on."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from itertools import cycle
from random import Random

from hypothesis import HealthCheck, settings, strategies as st

from slidestat.declare.alerts import Alert
from slidestat.declare.rankings import Ranking
from slidestat.declare.statistics import (
    Above,
    AgeOfLast,
    Count,
    Distinct,
    Histogram,
    Items,
    LandmarkCount,
    LandmarkSum,
    LeanDistinct,
    Maximum,
    Mean,
    Minimum,
    Quantiles,
    RankQuantiles,
    Sample,
    Statistic,
    Sum,
    TopItems,
)
from slidestat.declare.times.time_format import TIME_FORMATS
from slidestat.declare.topology import Topology
from tests.engine.exact import AGES, EVERY_STATISTIC, PARTS
from tests.engine.meant import CONDITIONS, LARGE_CONDITIONS
from tests.engine.model import Record
from tests.engine.streams import KEYS, LARGE_VALUES, TIMES, VALUES, records

# The formats of times; numbers of a sequence have lengths of their own.
CLOCKS = sorted(name for name, times in TIME_FORMATS.items() if not times.is_sequence)

# The same examples in every run; compiling kernels takes the first one some seconds.
laws = settings(
    derandomize=True,
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def topology(
    *,
    span: str = "1s",
    every: str = "100ms",
    windows: tuple[str, ...] = ("50ms", "100ms", "330ms", "1s"),
    lateness: str = "0s",
    epsilon: float = 0.1,
    statistics: tuple[Statistic, ...] = (),
    publish: str | tuple[str, ...] = (),
    where: str = "",
    alerts: tuple[Alert, ...] = (),
    derived: tuple[str, ...] = (),
    forget_after: str = "",
    emit: str = "events",
    tolerance: str = "0%",
    having: str = "",
    rankings: tuple[Ranking, ...] = (),
    synopses: str = "",
) -> Topology:
    """Windows of milliseconds, so that a few records cross many ticks; counts and sums, if nothing
    else is asked for.
    """
    return Topology(
        name="law",
        source="events",
        span=span,
        every=every,
        windows=windows,
        lateness=lateness,
        statistics=statistics or (Count(epsilon=epsilon), Sum(epsilon=epsilon)),
        publish=publish,
        where=where,
        alerts=alerts,
        derived=derived,
        forget_after=forget_after,
        emit=emit,
        tolerance=tolerance,
        having=having,
        rankings=rankings,
        synopses=synopses,
    )


def with_synopses(topology: Topology, ticks: int) -> Topology:
    """Return the topology with the synopses of its keys at an interval of so many ticks."""
    return replace(topology, synopses=f"{ticks * topology.every_ms}ms")


ALERTS = (
    Alert(name="often", when="count >= 3", window="100ms"),
    Alert(name="lasting", when="count > 1", window="330ms", for_=3, resolve="count < 2"),
    Alert(name="sure", when="sum > 10 * count or count > 20", window="1s", certain=True),
    Alert(name="high", when="mean > 40 and p50 > 30", window="330ms", for_=2, resolve="mean < 45"),
    Alert(name="nearly-nothing", when="not sum >= 0.01", window="50ms", for_=2),
)

RANKINGS = (
    Ranking(name="most", by="sum_1s", largest=2),
    Ranking(name="least", by="count_330ms", smallest=1, having="count_1s > 1"),
)

# Of which tests/engine/checks.py has the exact ones.
DERIVED_OF = (
    Count(epsilon=0.5),
    Count(epsilon=0.5, name="few", where=CONDITIONS[1]),
    Sum(epsilon=0.5),
    Quantiles(relative_error=0.1, epsilon=0.4, quantiles=(0.5, 0.9)),
)
DERIVED = (
    "few_100ms / count_100ms as part",
    "(count_1s - few_1s) / count_1s as rest",
    "few_1s / (few_1s + count_1s) as among",
    "p90_1s / p50_1s as tail",
    "sum_1s / count_1s as average",
    "(count_1s - count_100ms) * 0.5 as before",
    "part / (few_1s / count_1s) as trend",
    "coalesce(part, -1) - 3 as known",
    "(p90_100ms - p90_1s) / p90_1s as change",
    "sum_100ms - sum_100ms as nothing",
    "1 / (count_1s - few_1s) as inverse",
)

ALERTED = (
    Count(epsilon=0.5),
    Sum(epsilon=0.5),
    Mean(epsilon=0.5, decimals=1),
    Quantiles(relative_error=0.1, epsilon=0.4, quantiles=(0.5,)),
)

# Each under a name and a condition of its own.
CHOSEN = tuple(
    replace(statistic, name=f"{statistic.kind}-{place}", where=where)
    for place, (statistic, where) in enumerate(
        zip(EVERY_STATISTIC, cycle(CONDITIONS[1:]), strict=False)
    )
)

_WIDE = (
    Count(),
    Minimum(epsilon=0),
    Maximum(epsilon=0),
    Minimum(epsilon=0.3, name="rough_minimum"),
    Maximum(epsilon=0.3, name="rough_maximum"),
    RankQuantiles(epsilon=0.4, quantiles=(0, 0.25, 0.5, 1)),
    Distinct(epsilon=0.2, delta=1e-6),
    LeanDistinct(epsilon=0.2, delta=1e-6),
    TopItems(epsilon=0.3, limit=4),
    Items(items=("9007199254740993", "9007199254740992", "never"), epsilon=0.3),
    Sample(size=5, seed=3),
    AgeOfLast(where=LARGE_CONDITIONS[0], name="age"),
    *(Count(where=where, name=f"count-{i}") for i, where in enumerate(LARGE_CONDITIONS)),
    *(Maximum(where=where, name=f"of-{i}") for i, where in enumerate(LARGE_CONDITIONS)),
)
_WIDE_EDGES = (-(2.0**53), 0.5, 2.0**53, 2.0**53 + 4, 2.0**60, 2.0**63)

TOPOLOGIES = {
    "of any size": topology(statistics=_WIDE),
    "of any size between edges, late": topology(
        lateness="150ms",
        statistics=(*_WIDE, Histogram(edges=_WIDE_EDGES), Above(thresholds=_WIDE_EDGES)),
        where=LARGE_CONDITIONS[-2],
    ),
    "parts": topology(statistics=PARTS),
    "parts of last events, late": topology(
        span="12 events", windows=("3 events", "12 events"), lateness="300ms", statistics=PARTS
    ),
    "ages": topology(statistics=(*AGES, Sum())),
    "ages in a short span, late": topology(
        span="90ms", every="40ms", windows=(), lateness="70ms", statistics=(Sum(), *AGES)
    ),
    "every statistic": topology(statistics=EVERY_STATISTIC),
    "every statistic, late": topology(lateness="150ms", statistics=EVERY_STATISTIC),
    "chosen": topology(statistics=(Count(), Sum(), Sum(name="plain", epsilon=0.3), *CHOSEN)),
    "chosen of chosen, late": topology(
        lateness="150ms", statistics=(*CHOSEN, Count()), where=CONDITIONS[0]
    ),
    "passed over": topology(where=CONDITIONS[1]),
    "chosen last events": topology(
        span="12 events",
        windows=("3 events", "12 events"),
        statistics=tuple(s for s in CHOSEN if s.kind != "rate"),
        where=CONDITIONS[2],
    ),
    "published and chosen": topology(
        publish="partition", statistics=CHOSEN, where=CONDITIONS[0], lateness="90ms"
    ),
    "landmarks": topology(
        statistics=(Count(), LandmarkCount(), LandmarkSum(), LandmarkSum(name="d", decimals=0))
    ),
    "ages of last events, late": topology(
        span="9 events",
        windows=("3 events",),
        lateness="300ms",
        statistics=(*AGES, Count()),
        forget_after="2s",
    ),
    "after every third event": topology(
        every="3 events",
        span="12 events",
        windows=("3 events", "12 events"),
        statistics=(Count(), Sum(), Mean(decimals=1), *AGES),
    ),
    "after every second event, late, forgotten": topology(
        every="2 events",
        span="9 events",
        windows=(),
        lateness="300ms",
        statistics=(Count(), LandmarkCount(), Maximum()),
        forget_after="150ms",
    ),
    "after every event, late": topology(
        every="1 events", span="9 events", windows=(), lateness="90ms"
    ),
    "landmarks of last events": topology(
        span="3 events", windows=(), statistics=(LandmarkSum(), Maximum())
    ),
    "forgotten last events": topology(
        span="12 events",
        windows=("3 events", "12 events"),
        statistics=(*(s for s in EVERY_STATISTIC if s.kind != "rate"), LandmarkSum()),
        forget_after="150ms",
    ),
    "forgotten last events, late": topology(
        span="9 events",
        windows=(),
        lateness="300ms",
        statistics=(Count(), Sum(), Mean(decimals=1)),
        alerts=(Alert(name="high", when="mean > 40"),),
        forget_after="2s",
    ),
    "forgotten landmarks": topology(
        span="200ms",
        windows=(),
        statistics=(Count(epsilon=0.5), Sum(), LandmarkCount(), LandmarkSum()),
        alerts=(
            Alert(name="much", when="landmark_sum > 100 and count > 2", resolve="count > 2"),
            Alert(name="sum", when="sum > 9", resolve="landmark_sum > 100 and count > 2"),
        ),
        forget_after="730ms",
    ),
    "forgotten with the span": topology(
        span="200ms", windows=(), lateness="90ms", statistics=(LandmarkSum(),), forget_after="200ms"
    ),
    "last events": topology(
        span="40 events",
        windows=("1 events", "7 events", "40 events"),
        statistics=tuple(s for s in EVERY_STATISTIC if s.kind != "rate"),
    ),
    "one window of last events": topology(
        span="40 events",
        windows=(),
        statistics=(RankQuantiles(epsilon=0.5, quantiles=(0, 0.25, 0.5, 1)), Sum()),
    ),
    "last events, late": topology(span="9 events", windows=(), lateness="300ms"),
    "no lateness": topology(),
    "a little lateness": topology(lateness="150ms"),
    "lateness of one tick": topology(lateness="100ms", epsilon=0.5),
    "lateness of the span": topology(lateness="1s", epsilon=1),
    "ticks far apart": topology(every="700ms", lateness="90ms", windows=("1s", "1ms")),
    "a tick a millisecond": topology(every="1ms", windows=("20ms",)),
    "windows beyond the ticks": topology(span="1m", every="50ms", windows=("1m", "40ms")),
    "published partitions": topology(publish="partition"),
    "published parts and ages": topology(
        publish="partition",
        lateness="90ms",
        statistics=(*(s for s in PARTS if s.can_be_united), *AGES),
    ),
    "published partitions, late": topology(
        every="70ms", lateness="150ms", publish="partition", statistics=EVERY_STATISTIC
    ),
    "published keys": topology(lateness="90ms", publish=("a", "k1", "k")),
    "alerts": topology(epsilon=0.5, statistics=ALERTED, alerts=ALERTS),
    "alerts, late": topology(
        epsilon=0.5, statistics=(*ALERTED, TopItems()), alerts=ALERTS, lateness="150ms"
    ),
    "alerts over windows": topology(
        epsilon=0.5,
        alerts=(
            Alert(name="burns", when="count_100ms > 2 and sum_1s > 9"),
            Alert(name="quiet", when="count_50ms = 0 and count_330ms > 1", for_=2),
            Alert(name="dense", when="sum_330ms > 10 * count_1s", resolve="count_50ms < 2"),
            Alert(name="mixed", when="count > 1 and sum_1s > 9", window="50ms", certain=True),
        ),
    ),
    "alerts of landmarks": topology(
        windows=("1s",),
        statistics=(Count(epsilon=0.5), LandmarkSum()),
        alerts=(Alert(name="much", when="landmark_sum > 100 and count > 2", resolve="count < 2"),),
    ),
    "alerts of last events": topology(
        span="12 events",
        windows=("3 events", "12 events"),
        statistics=(Count(), Sum(), Mean(decimals=1)),
        alerts=(Alert(name="high", when="mean > 40", window="3 events", for_=2),),
    ),
    "alerts of a tick a millisecond": topology(
        every="1ms",
        windows=("20ms", "1s"),
        alerts=(
            Alert(name="often", when="count > 2", window="20ms", for_=2),
            Alert(name="sum", when="sum > 9", window="20ms"),
        ),
    ),
    "derived": topology(
        windows=("100ms", "1s"),
        statistics=DERIVED_OF,
        derived=DERIVED,
        alerts=(
            Alert(name="parts", when="part > 0.4 and count_100ms > 1", resolve="part < 0.3"),
            Alert(name="average", when="average > 40 and count > 2", window="100ms", certain=True),
        ),
    ),
    "derived of last events": topology(
        span="12 events",
        windows=("3 events", "12 events"),
        statistics=(Count(), Count(name="few", where=CONDITIONS[1]), TopItems()),
        derived=("few_3_events / count_12_events as part", "1 - part as rest"),
        lateness="90ms",
    ),
    "rankings": topology(epsilon=0.5, rankings=RANKINGS),
    "the smallest": topology(span="1ms", every="1ms", windows=(), lateness="1ms"),
}

# Those of which keys without events are emitted, too: the laws of test_emit.py.
EMITTED = {
    "windows emptied": topology(emit="windows"),
    "windows emptied, late": topology(
        emit="windows", epsilon=0.5, statistics=ALERTED, alerts=ALERTS, lateness="150ms"
    ),
    "windows emptied, ticks far apart": topology(
        emit="windows", every="700ms", span="5s", windows=("1s", "1ms", "2s"), lateness="90ms"
    ),
    "windows emptied, forgotten": topology(
        emit="windows",
        span="300ms",
        windows=("20ms", "200ms"),
        statistics=(Count(epsilon=0.5), LandmarkSum()),
        alerts=(Alert(name="much", when="landmark_sum > 100 and count > 2", window="200ms"),),
        forget_after="730ms",
    ),
    "windows emptied of last events": topology(
        emit="windows", span="9 events", windows=("3 events",), forget_after="300ms"
    ),
    "windows emptied, published": topology(emit="windows", publish="partition", lateness="90ms"),
    "always": topology(emit="always", epsilon=0.5),
    "always, late": topology(
        emit="always", epsilon=0.5, statistics=ALERTED, alerts=ALERTS, lateness="150ms"
    ),
    "windows emptied, rankings, late": topology(
        emit="windows",
        statistics=ALERTED,
        alerts=ALERTS,
        lateness="150ms",
        rankings=RANKINGS,
    ),
    "always, forgotten": topology(
        emit="always",
        span="350ms",
        windows=("20ms",),
        statistics=(Count(epsilon=0.5), LandmarkSum()),
        alerts=(Alert(name="much", when="landmark_sum > 100 and count > 2", resolve="count < 2"),),
        forget_after="730ms",
    ),
    "always, published keys": topology(emit="always", lateness="90ms", publish=("a", "k1", "k")),
}

# Those of which figures decide what is written: the laws of test_emit_by_figures.py.
BY_FIGURES = {
    "change": topology(emit="change", epsilon=0.5),
    "change, within 30 %": topology(
        emit="change", tolerance="30%", statistics=ALERTED, alerts=ALERTS, lateness="150ms"
    ),
    "change of every statistic": topology(
        emit="change", tolerance="5%", windows=("330ms", "1s"), statistics=EVERY_STATISTIC
    ),
    "change of derived": topology(
        emit="change",
        tolerance="10%",
        windows=("100ms", "1s"),
        statistics=DERIVED_OF,
        derived=DERIVED,
    ),
    "having derived": topology(
        windows=("100ms", "1s"),
        statistics=DERIVED_OF,
        derived=DERIVED,
        having="part > 0.4 and count_1s > 1",
    ),
    "change, rankings": topology(
        emit="change", tolerance="10%", epsilon=0.5, lateness="90ms", rankings=RANKINGS
    ),
    "change, forgotten": topology(
        emit="change",
        tolerance="50%",
        span="350ms",
        windows=("20ms",),
        statistics=(Count(epsilon=0.5), LandmarkSum(), AgeOfLast()),
        forget_after="730ms",
    ),
    "change of last events": topology(
        emit="change", tolerance="10%", span="9 events", windows=("3 events",), forget_after="300ms"
    ),
    "having, change": topology(
        emit="change", tolerance="10%", epsilon=0.5, having="count_330ms >= 3"
    ),
    "having, events": topology(epsilon=0.5, having="count_330ms >= 3", lateness="90ms"),
    "having, windows": topology(emit="windows", having="count_100ms < 2 or sum_1s > 50"),
    "having, always": topology(
        emit="always",
        statistics=ALERTED,
        alerts=ALERTS,
        having="mean_330ms > 20 and count_100ms > 1",
        lateness="150ms",
    ),
    "having, forgotten": topology(
        span="350ms",
        windows=("20ms",),
        statistics=(Count(epsilon=0.5), LandmarkSum()),
        forget_after="730ms",
        having="landmark_sum > 9 or count < 1",
    ),
    "having of last events": topology(
        span="9 events", windows=("3 events",), forget_after="300ms", having="sum_3_events > 9"
    ),
}


@dataclass(frozen=True)
class Case:
    """A topology and a stream; `random` makes the choices of the law under trial."""

    topology: Topology
    records: list[Record]
    random: Random

    def __repr__(self) -> str:
        events = "\n".join(
            f"  {r.offset}: {(r.value or b'null').decode()[:80]}" for r in self.records
        )
        return f"{self.topology}\n{events}\n"


@st.composite
def cases(draw: st.DrawFn, max_size: int = 100, topologies: Collection[str] = TOPOLOGIES) -> Case:
    """Any topology, or any of some, with any kinds of keys, values, times and disorder."""
    name = draw(st.sampled_from(sorted(topologies)))
    chosen = (EMITTED | BY_FIGURES).get(name) or TOPOLOGIES[name]
    values = LARGE_VALUES if name.startswith("of any size") else VALUES
    stream = {
        "keys": draw(st.sampled_from(sorted(KEYS))),
        "values": draw(st.sampled_from(sorted(values))),
        "times": draw(st.sampled_from(sorted(TIMES))),
    }
    size = draw(st.integers(1, max_size))
    bad = draw(st.sampled_from([0.0, 0.1, 0.9]))
    lacking = draw(st.sampled_from([0.0, 0.3]))
    holes = draw(st.booleans())
    random = Random(draw(st.integers(0, 2**32)))
    found = records(random, size, **stream, bad=bad, holes=holes, lacking=lacking)
    return Case(chosen, found, random)


@st.composite
def cases_of(draw: st.DrawFn, topologies: Mapping[str, Topology]) -> Case:
    """Any of these topologies, with a short stream of any keys, values and times."""
    random = Random(draw(st.integers(0, 2**32)))
    stream = records(
        random,
        draw(st.integers(1, 120)),
        keys=draw(st.sampled_from(["one", "few", "zipf"])),
        values=draw(st.sampled_from(sorted(VALUES))),
        times=draw(st.sampled_from(sorted(TIMES))),
        bad=0.1,
        holes=draw(st.booleans()),
    )
    return Case(topologies[draw(st.sampled_from(sorted(topologies)))], stream, random)
