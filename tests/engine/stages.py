"""Parties with a stream each, what they published, and a referee of them."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from operator import attrgetter
from random import Random
from typing import Any

from hypothesis import strategies as st

from slidestat.declare.referee import Referee
from slidestat.declare.statistics import RankQuantiles, Statistic
from slidestat.declare.topology import Topology
from slidestat.engine.partition import PartitionProcessor
from slidestat.engine.publishing import SynopsisRecord, SynopsisTopic
from slidestat.testing.records import MemoryStore
from tests.engine.cases import AGES, CHOSEN, EVERY_STATISTIC, PARTS, topology
from tests.engine.memory import SOURCE, batch_of
from tests.engine.model import Event, Model, Record, inside, of_all
from tests.engine.streams import VALUES, records


def _is_of_events(statistic: Statistic) -> bool:
    """Whether it is asked of the last events of each party."""
    return statistic.can_be_united and statistic.has_windows and not statistic.needs_time


WHOLE = {
    "every statistic": topology(publish="partition", every="250ms", statistics=EVERY_STATISTIC),
    "late": topology(publish="partition", every="70ms", lateness="150ms"),
    "parts and ages": topology(
        publish="partition",
        every="130ms",
        lateness="40ms",
        statistics=(*(s for s in PARTS if s.can_be_united), *AGES),
    ),
    "keys": topology(publish=("a", "b"), every="100ms", lateness="30ms"),
    "last events": topology(
        publish="partition",
        every="150ms",
        span="30 events",
        windows=("1 events", "7 events", "30 events"),
        statistics=tuple(filter(_is_of_events, EVERY_STATISTIC)),
    ),
    "last events, chosen": topology(
        publish=("a", "b"),
        every="100ms",
        lateness="120ms",
        span="9 events",
        windows=("3 events", "9 events"),
        statistics=tuple(filter(_is_of_events, CHOSEN)),
    ),
    "one window of last events": topology(
        publish="partition",
        every="70ms",
        lateness="70ms",
        span="12 events",
        windows=(),
        statistics=(
            RankQuantiles(epsilon=0.5, quantiles=(0, 0.25, 0.5, 1)),
            *filter(_is_of_events, PARTS),
        ),
    ),
}


@dataclass(frozen=True)
class Stage:
    """Parties with a stream each, and what they published, mixed in some order."""

    referee: Referee
    parties: int
    models: list[Model]
    published: list[Record]
    random: Random

    def __repr__(self) -> str:
        found = [r for m in self.models for r in m.records]
        return f"{self.referee}\n{self.parties} parties, {len(found)} records\n"


def publish(declared: Topology, number: int, parties: int, rows: list[Record]) -> list[Any]:
    """What a party publishes of its records, in order."""
    processor = PartitionProcessor(declared, SOURCE, number, MemoryStore())
    topic = SynopsisTopic(declared, parties)
    published = []
    for start in range(0, len(rows), 50):
        effects = processor.process(batch_of(rows[start : start + 50]))
        published += topic.records(effects.published, number)
    return [record for record in published if record.partition == 0 or len(record.headers)]


def mixed(random: Random, sent: list[list[SynopsisRecord]]) -> list[Record]:
    """The records of all parties as one partition, each party's in its order."""
    left = [list(reversed(records)) for records in sent]
    found: list[Record] = []
    patience = random.choice([1, 5, 200])
    while any(left):
        some = random.choice([records for records in left if records])
        for _ in range(random.randint(1, patience)):
            if some:
                record = some.pop()
                found.append(Record(len(found), record.key, record.value, record.timestamp))
    return found


@st.composite
def stages(draw: st.DrawFn) -> Stage:
    random = Random(draw(st.integers(0, 2**32)))
    parties = draw(st.integers(1, 5))
    declared = WHOLE[draw(st.sampled_from(sorted(WHOLE)))]
    patience = draw(st.sampled_from(["0s", "200ms", "1h"]))
    of_events = declared.span_length.of_events
    modes = ["windows", "events"] if of_events else ["windows", "always", "events"]
    emit = draw(st.sampled_from(modes))
    referee = Referee(of=declared, patience=patience, correctable="365d", emit=emit)
    models, sent = [], []
    for number in range(parties):
        rows = records(
            random,
            draw(st.integers(0, 80)),
            keys="few",
            values=draw(st.sampled_from(sorted(VALUES))),
            times=draw(st.sampled_from(["in order", "sparse", "bursts", "jitter", "backwards"])),
            bad=0.05,
            holes=False,
        )
        models.append(Model(declared, rows))
        sent.append(publish(declared, number, parties, rows))
    return Stage(referee, parties, models, mixed(random, sent), random)


def streams_of(declared: Topology, model: Model) -> dict[str, list[Event]]:
    """The counted events of a party by stream, by time."""
    of_key = model.of_key()
    if declared.publishes_partitions:
        return dict(zip([SOURCE], of_key.values(), strict=False))
    return {key: events for key, events in of_key.items() if key in declared.publish}


def of_parties(
    declared: Topology, stage: Stage, stream: str, parties: Iterable[str], end: int
) -> dict[int, list[Fraction | None]]:
    """The values of a stream's windows over some parties, by length, as of a key at a tick; of
    windows of events, the last ones of each party.
    """
    found, last = [], []
    for name in parties:
        model = stage.models[int(name.rpartition("/")[2])]
        events = streams_of(declared, model).get(stream, [])
        last.append([event for event in events if event.time < end])
        found += last[-1]
    found.sort(key=attrgetter("time"))
    streams = last if declared.span_length.of_events else [found]
    windows = {
        n: [event.value for events in streams for event in inside(declared, events, n, end)]
        for n in declared.window_lengths
    }
    return windows | of_all(declared, found, end)


def clock(declared: Topology, model: Model) -> float:
    """The last tick that a party's watermark has passed."""
    watermark = model.watermarks[-1] if model.watermarks else float("-inf")
    if watermark == float("-inf"):
        return watermark
    return watermark // declared.every_ms * declared.every_ms
