"""The audit of a referee over the last events of each party: recounted from their events."""

from collections import defaultdict
from random import Random

import msgspec
import numpy as np
import pytest

from slidestat import Referee
from slidestat.declare.forms.resolved import resolved
from slidestat.referee.referee_partition import RefereeProcessor
from slidestat.schemas.emission import Emission
from slidestat.schemas.sequence import decode_emission
from slidestat.spark.audit import key
from slidestat.spark.audit.declaration import declaration_of
from slidestat.spark.audit.events.reading import RawRecord, read_event
from slidestat.spark.audit.exact_key import places_in
from tests.audit.test_audit_key import Partition
from tests.audit.test_running_audit import as_text, in_pieces
from tests.engine.memory import SOURCE, MemoryStore, batch_of
from tests.engine.model import Record
from tests.engine.stages import WHOLE, mixed, publish
from tests.engine.streams import START_MS, encode

PARTIES = 3


class Parties(Partition):
    """Parties that send at unequal rates, in order, one of them only at first of the keys that are
    published; often several events in one millisecond. The referee of them, and what it finally
    answered.
    """

    def __init__(self, name: str) -> None:
        referee, random = Referee(of=WHOLE[name], patience="1h", correctable="365d"), Random(7)
        plain = msgspec.json.decode(msgspec.json.encode(resolved(referee)))
        self.declaration = declaration_of(plain)
        events = defaultdict(list)
        sent: list[list[Record]] = [[] for _ in range(PARTIES)]
        time = START_MS
        for number in range(150):
            time += random.choice([0, 0, 1, 20, 90])
            party = random.choice([0, 0, 0, 0, 1, 2])
            name = "other" if party == 2 and number > 40 else random.choice("aab")
            value = encode(name, time, random.randrange(60))
            of, at, texts = read_event(self.declaration, RawRecord(None, value, START_MS))
            stream = SOURCE if self.declaration.answers_for_all else of
            offset = np.array(len(sent[party]))
            events[stream].append((at, int(places_in(party, offset)), texts))
            sent[party].append(Record(int(offset), None, value, START_MS))
        published = [
            publish(referee.of, party, PARTIES, records) for party, records in enumerate(sent)
        ]
        judge = RefereeProcessor(referee, referee.source, 0, MemoryStore())
        effects = judge.process(batch_of(mixed(random, published)))
        self.emissions: dict[str, dict[int, Emission]] = defaultdict(dict)
        for _, encoded, _ in effects.emissions:
            emission = decode_emission(encoded)
            if not emission.provisional:
                self.emissions[emission.key][emission.window_end_ms] = emission
        # What comes after all is not answered for.
        self.watermark = max(max(found) for found in self.emissions.values())
        self.keys = {stream: self._key(rows) for stream, rows in events.items()}
        self.rows = events


@pytest.fixture(scope="module", params=[name for name in WHOLE if "last events" in name])
def parties(request: pytest.FixtureRequest) -> Parties:
    return Parties(request.param)


def test_final_answers_are_recounted_whatever_is_dropped(
    parties: Parties, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the last events of each party, also of one that has been silent since its first ones:
    with all events at hand, and while they go by.
    """
    monkeypatch.setattr(key, "_WORTH_DROPPING", 1)
    for stream, emissions in parties.emissions.items():
        assert len(emissions) > 10
        found = parties.audit(stream)
        assert [it.violation for it in found if it.violation] == []
        judged = {it.figure.statistic for it in found if it.verdict and it.figure}
        # A list may have no item.
        assert judged >= {it.label for it in parties.declaration.statistics if it.series}
        assert as_text(in_pieces(parties, stream, 20)) == as_text(found)


def test_an_answer_that_counts_otherwise_is_found(
    parties: Parties, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is missing, and one that has another count."""
    for stream, emissions in parties.emissions.items():
        missing, wrong = sorted(emissions)[-2:]
        first, *others = emissions[wrong].figures
        first = msgspec.structs.replace(first, lower=-1e6, upper=-1e6, estimate=-1e6)
        broken = msgspec.structs.replace(emissions[wrong], figures=[first, *others])
        left = {tick: one for tick, one in emissions.items() if tick != missing}
        monkeypatch.setitem(parties.emissions, stream, left | {wrong: broken})
        found = {(it.window_end_ms, it.violation) for it in parties.audit(stream)}
        assert (missing, "not emitted") in found
        assert {tick for tick, violation in found if violation} == {missing, wrong}
