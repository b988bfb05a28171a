"""Audits of rankings: a lake with what a referee wrote, over all partitions of a topic."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import msgspec
import pytest
import typer
from confluent_kafka import Producer

from slidestat import Referee, RefereeDriver
from slidestat.cli.spark import audit, ingest
from slidestat.declare.forms.files import load_declaration
from slidestat.declare.forms.resolved import fingerprint_of
from slidestat.errors import SlidestatError
from slidestat.schemas.emission import emission_key
from slidestat.schemas.ranking import Ranking
from tests.spark.lake_topics import NOON_MS

pytestmark = pytest.mark.usefixtures("jobs_in_one_session")

PARTITIONS = 3
TOPOLOGY = """name = "{source}"
source = "{source}"
every = "1m"
span = "150s"
windows = ["1m", "150s"]
key_field = "name"
time_field = "time"
value_field = "value"
[[statistics]]
kind = "count"
[[statistics]]
kind = "quantile"
[[rankings]]
name = "slowest"
by = "p50_150s"
largest = 3
having = "count_150s >= 2"
[[rankings]]
name = "quietest"
by = "count_1m"
smallest = 2
"""


def _sent(driver: RefereeDriver) -> list[tuple[int, bytes]]:
    """Send events of 40 keys over all partitions; return their partitions and values."""
    random, events = Random(1), []
    for second in range(0, 1_200, 3):
        number = random.randrange(40)
        event = {
            "name": f"key {number}",
            "time": NOON_MS + 1_000 * second,
            "value": random.randrange(1_000),
        }
        driver.send(event, partition=number % PARTITIONS)
        events.append((number % PARTITIONS, msgspec.json.encode(event)))
    return events


@pytest.mark.parametrize("is_tampered", [False, True])
def test_rankings_are_recomputed(
    make_topic: Callable[..., str],
    bootstrap_servers: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    is_tampered: bool,
) -> None:
    source = make_topic("t", PARTITIONS)
    for kind in ("global-rankings", "late", "dead-letters", "synopses"):
        make_topic(f"t-{kind}", 1)
    parties, file = tmp_path / "parties.toml", tmp_path / "global.toml"
    parties.write_text(TOPOLOGY.format(source=source))
    file.write_text(f'of = "{parties}"\npatience = "5m"\n')
    referee = load_declaration(str(file))
    assert isinstance(referee, Referee)
    driver = RefereeDriver(referee, PARTITIONS)
    events = _sent(driver)
    records = list(driver.rankings)
    final = [one for one in records if not one.provisional]
    assert {one.ranking for one in final} == {"slowest", "quietest"}
    if is_tampered:
        place = next(
            place
            for place, one in enumerate(records)
            if not one.provisional and one.ranking == "slowest" and len(one.places) == 3
        )
        records[place] = _without_first(records[place])
    producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 5, "log_level": 0})
    for partition, value in events:
        producer.produce(source, value, partition=partition)
    for record in driver.parties.published:
        producer.produce(
            referee.of.synopsis_topic,
            record.value,
            record.key,
            record.partition,
            timestamp=record.timestamp,
            headers=record.headers,
        )
    mark = fingerprint_of(referee).encode()
    for one in records:
        producer.produce(
            referee.output_topic,
            msgspec.json.encode(one),
            emission_key(one.topology, one.ranking, one.window_end_ms),
            timestamp=one.window_end_ms,
            headers=[("declaration", mark)],
        )
    assert producer.flush(60) == 0

    lake = str(tmp_path / "lake")
    ingest(str(file), lake, bootstrap=bootstrap_servers)
    capsys.readouterr()
    if not is_tampered:
        audit(str(file), lake, bootstrap=bootstrap_servers, since_last=True)
        said = capsys.readouterr().out
        assert "is audited: each ranking is of all keys" in said
        assert f"in {len(final):,} rankings audited: every promise kept" in said
        assert "unaccounted" not in said
        with pytest.raises(SlidestatError, match="each is of all keys"):
            audit(str(file), lake, bootstrap=bootstrap_servers, sample=0.5)
        return
    with pytest.raises(typer.Exit):
        audit(str(file), lake, bootstrap=bootstrap_servers)
    said = capsys.readouterr().out
    assert "PROMISES BROKEN" in said
    assert f"at {records[place].window_end_ms}: slowest: left out, with places to spare" in said


def _without_first(record: Ranking) -> Ranking:
    """Return a ranking that agrees with itself, without its first key."""
    places = [
        msgspec.structs.replace(
            it, place=place, first_place=1, last_place=None, certainty="likely", membership="likely"
        )
        for place, it in enumerate(record.places[1:], 1)
    ]
    return msgspec.structs.replace(record, places=places)
