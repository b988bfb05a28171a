"""Audits of referees: figures over all partitions, recomputed from the events of their parties."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
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
from slidestat.schemas.dead_letter import DeadLetterHeaders, Reason, dead_letter_key
from slidestat.schemas.emission import Emission, emission_key
from tests.spark.lake_topics import NOON_MS

pytestmark = pytest.mark.usefixtures("jobs_in_one_session")

PARTITIONS = 3
MINUTE_MS = 60_000
STATISTICS = "".join(
    f'[[statistics]]\nkind = "{kind}"\n' for kind in ("count", "mean", "maximum", "quantile")
)
STATISTICS += '[[statistics]]\nkind = "top"\nfield = "name"\n'


@dataclass
class Stage:
    """A referee over the events of a topic of this test's own, and all that they wrote."""

    bootstrap: str
    file: Path
    referee: Referee
    events: list[tuple[int, bytes]] = field(default_factory=list)
    late: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.driver = RefereeDriver(self.referee, PARTITIONS)

    def send(self, partition: int, name: str, time: int, value: int) -> None:
        """An event, which may come too late."""
        event = {"name": name, "time": time, "value": value}
        offset = sum(number == partition for number, _ in self.events)
        before = len(self.driver.parties.late)
        self.driver.send(event, partition=partition)
        self.events.append((partition, msgspec.json.encode(event)))
        if len(self.driver.parties.late) > before:
            self.late.append((partition, offset))

    def write(self, answers: Sequence[Emission]) -> None:
        """Put all of it on the topics, with `answers` for those of the referee."""
        parties, mark = self.referee.of, fingerprint_of(self.referee).encode()
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5, "log_level": 0})
        for partition, value in self.events:
            producer.produce(parties.source, value, partition=partition)
        for partition, offset in self.late:
            detail = (Reason.LATE, "why", parties.source, partition, offset, parties.name)
            producer.produce(
                parties.late_topic,
                b"?",
                dead_letter_key(parties.source, partition, offset),
                headers=DeadLetterHeaders(*detail).encode(),
            )
        for record in self.driver.parties.published:
            producer.produce(
                parties.synopsis_topic,
                record.value,
                record.key,
                record.partition,
                timestamp=record.timestamp,
                headers=record.headers,
            )
        for answer in answers:
            producer.produce(
                self.referee.output_topic,
                msgspec.json.encode(answer),
                emission_key(answer.topology, answer.key, answer.window_end_ms),
                timestamp=answer.window_end_ms,
                headers=[("declaration", mark)],
            )
        assert producer.flush(60) == 0

    def audited(self, lake: Path, capsys: pytest.CaptureFixture[str], *, is_clean: bool) -> str:
        """Ingest and audit, and return what the audit said."""
        ingest(str(self.file), str(lake), bootstrap=self.bootstrap)
        capsys.readouterr()
        if is_clean:
            audit(str(self.file), str(lake), bootstrap=self.bootstrap)
        else:
            with pytest.raises(typer.Exit):
                audit(str(self.file), str(lake), bootstrap=self.bootstrap)
        return capsys.readouterr().out


@pytest.fixture
def make_stage(
    make_topic: Callable[..., str], bootstrap_servers: str, tmp_path: Path
) -> Callable[..., Stage]:
    def make(
        publish: str,
        correctable: str = "1h",
        lines: str = "",
        windows: str = 'span = "150s"\nwindows = ["1m", "150s"]\n',
    ) -> Stage:
        source = make_topic("t", PARTITIONS)
        for kind in ("global-statistics", "late", "dead-letters"):
            make_topic(f"t-{kind}", 1)
        make_topic("t-synopses", PARTITIONS)
        parties, file = tmp_path / "parties.toml", tmp_path / "global.toml"
        parties.write_text(
            f'name = "{source}"\nsource = "{source}"\nevery = "1m"\n{windows}'
            'lateness = "10s"\nkey_field = "name"\ntime_field = "time"\n'
            f'value_field = "value"\npublish = {publish}\n{lines}{STATISTICS}'
        )
        file.write_text(f'of = "{parties}"\npatience = "5m"\ncorrectable = "{correctable}"\n')
        declared = load_declaration(str(file))
        assert isinstance(declared, Referee)
        return Stage(bootstrap_servers, file, declared)

    return make


def _fill(stage: Stage, partitions: Sequence[int], first: int, last: int) -> None:
    """Events of some minutes in each of `partitions`, out of order, with silences, some late."""
    random = Random(first)
    for minute in range(first, last):
        if minute % 10 in (3, 4, 5, 6):  # Longer than the span.
            continue
        for partition in partitions:
            for _ in range(4):
                time = NOON_MS + MINUTE_MS * minute + random.randrange(MINUTE_MS)
                # What is not published is in one partition.
                name = random.choice(["a", "b", f"c{partition}"])
                stage.send(partition, name, time, random.randrange(1_000))


@pytest.mark.parametrize("publish", ['"partition"', '["a", "b"]'])
def test_final_answers_are_recomputed_from_the_events_of_all_parties(
    make_stage: Callable[..., Stage],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    publish: str,
) -> None:
    stage = make_stage(publish)
    _fill(stage, range(PARTITIONS), 0, 30)
    assert stage.late
    final = [one for one in stage.driver.emissions if not one.provisional]
    assert {one.key for one in final} == (
        {stage.referee.of.source} if "partition" in publish else {"a", "b"}
    )
    stage.write(stage.driver.emissions)
    said = stage.audited(tmp_path / "lake", capsys, is_clean=True)
    assert f"in {len(final):,} emissions audited: every promise kept" in said
    # Those after the last final answer are not read.
    assert 0 < int(said.split(" late + 0 dead")[0].split()[-1]) <= len(stage.late)
    assert "unaccounted" not in said


@pytest.mark.long
def test_the_last_events_of_each_party_are_recounted(
    make_stage: Callable[..., Stage], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Out of order, some late, several in one millisecond: in the order that the parties number
    them in.
    """
    windows = 'span = "7 events"\nwindows = ["1 events", "7 events"]\n'
    stage = make_stage('["a", "b"]', windows=windows)
    random = Random(3)
    for second in range(600):
        time = NOON_MS + 1_000 * second - random.choice([0, 0, 0, 700, 9_000, 12_000])
        party, name = random.randrange(PARTITIONS), random.choice("abc")
        # What is not published is in one partition.
        stage.send(party, name if name < "c" else f"c{party}", time, random.randrange(1_000))
    assert stage.late
    final = [one for one in stage.driver.emissions if not one.provisional]
    stage.write(stage.driver.emissions)
    said = stage.audited(tmp_path / "lake", capsys, is_clean=True)
    assert f"in {len(final):,} emissions audited: every promise kept" in said
    assert "unaccounted" not in said


@pytest.mark.long
@pytest.mark.parametrize("fault", ["wrong", "not there", "no word of an emptied window"])
def test_a_wrong_answer_and_one_that_is_not_there_are_found(
    make_stage: Callable[..., Stage], tmp_path: Path, capsys: pytest.CaptureFixture[str], fault: str
) -> None:
    stage = make_stage('"partition"')
    _fill(stage, range(PARTITIONS), 0, 14)
    answers = [one for one in stage.driver.emissions if not one.provisional]
    place = 3
    if fault == "no word of an emptied window":
        place = next(
            place
            for place, answer in enumerate(answers)
            if answer.figures[0].estimate == 0 and answer.figures[1].estimate
        )
    broken = answers.pop(place)
    if fault == "wrong":
        first, *others = broken.figures
        of_one_party = msgspec.structs.replace(first, estimate=4.0, lower=4.0, upper=4.0)
        answers.append(msgspec.structs.replace(broken, figures=[of_one_party, *others]))
    stage.write(sorted(answers, key=lambda answer: answer.window_end_ms))
    said = stage.audited(tmp_path / "lake", capsys, is_clean=False)
    assert "PROMISES BROKEN" in said
    found = "more off than promised" if fault == "wrong" else "not emitted"
    assert f"{stage.referee.of.source} at {broken.window_end_ms}:" in said
    assert found in said


@pytest.mark.long
def test_an_answer_without_a_party_is_judged_by_the_events_of_the_others(
    make_stage: Callable[..., Stage], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where a party stays away for longer than answers can be corrected, and comes back."""
    stage = make_stage('"partition"', correctable="20m")
    _fill(stage, range(PARTITIONS), 0, 10)
    _fill(stage, (0, 1), 10, 60)
    _fill(stage, (2,), 10, 60)
    _fill(stage, range(PARTITIONS), 60, 70)
    final = [one for one in stage.driver.emissions if not one.provisional]
    assert any(one.absent for one in final)
    assert not final[-1].absent
    stage.write(stage.driver.emissions)
    said = stage.audited(tmp_path / "lake", capsys, is_clean=True)
    assert f"in {len(final):,} emissions audited: every promise kept" in said


@pytest.mark.long
def test_answers_that_all_wait_for_a_party_cannot_be_audited_yet(
    make_stage: Callable[..., Stage], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stage = make_stage('"partition"')
    _fill(stage, (0, 1), 0, 14)
    assert all(one.provisional for one in stage.driver.emissions)
    stage.write(stage.driver.emissions)
    with pytest.raises(SlidestatError, match="has no final answer"):
        stage.audited(tmp_path / "lake", capsys, is_clean=True)
