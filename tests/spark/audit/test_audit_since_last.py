"""Audits that go on from the last one: the report is that of an audit of all, from few events."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
import typer
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from slidestat import TopologyDriver
from slidestat.cli.spark import audit, ingest, report
from slidestat.declare.forms.files import load_topology
from slidestat.declare.forms.resolved import fingerprint_of
from slidestat.errors import SlidestatError
from slidestat.schemas.dead_letter import Reason
from slidestat.spark.audit.report import audit_of
from slidestat.spark.lake.lake import Lake
from tests.spark.lake_topics import NOON_MS, Topics, make_topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slidestat.schemas.emission import Emission
    from slidestat.spark.audit.progress import Progress

pytestmark = pytest.mark.usefixtures("jobs_in_one_session")
STEP_MS = 6_000


class History:
    """Events of an hour in three parts: what a worker makes of each, and its lake."""

    def __init__(
        self, topics: Topics, folder: Path, spark: "SparkSession", statistics: str = ""
    ) -> None:
        self.topics, self.spark = topics, spark
        self.file, self.lake = folder / "topology.toml", str(folder / "lake")
        self.file.write_text(
            f'name = "{topics.name}"\nsource = "{topics.source}"\nspan = "10m"\nevery = "1m"\n'
            'windows = ["2m", "10m"]\nlateness = "0s"\n[[statistics]]\nkind = "count"\n'
            f'[[statistics]]\nkind = "mean"\n{statistics}'
        )
        topology = load_topology(str(self.file))
        self.mark = fingerprint_of(topology)
        self.driver = TopologyDriver(topology)
        self.emitted: list[Emission] = []

    def go_on(self, first: int, last: int) -> "list[Emission]":
        """Send the events from a number on up to another, and return the new emissions. A key ends
        on the way; each fiftieth event is late.
        """
        for i in range(first, last):
            key, late = f"k{i % 3}" if i < 250 else f"k{i % 2}", i % 50 == 49
            time = NOON_MS + STEP_MS * (i - 5 if late else i)
            record = msgspec.json.encode({"key": key, "time": time, "value": i % 7})
            self.driver.send_bytes(record)
            self.topics.event(record)
            if late:
                self.topics.refuse("late", Reason.LATE, i)
        new = self.driver.emissions[len(self.emitted) :]
        self.emitted += new
        return new

    def ingest(self, emissions: "list[Emission]") -> None:
        self.topics.emit(emissions, self.mark)
        ingest(str(self.file), self.lake, bootstrap=self.topics.bootstrap)

    def audit(self, *, since_last: bool = True) -> int:
        """Its exit code."""
        try:
            audit(
                str(self.file),
                self.lake,
                bootstrap=self.topics.bootstrap,
                since_last=since_last,
            )
        except typer.Exit as ended:
            return ended.exit_code
        return 0

    @property
    def progress(self) -> "Progress | None":
        found = audit_of(self.spark, Lake(self.lake, self.topics.name))
        assert found is not None
        return found.progress

    @property
    def figures(self) -> int:
        return sum(len(emission.figures) for emission in self.emitted)


@pytest.fixture
def history(
    make_topic: Callable[..., str], bootstrap_servers: str, tmp_path: Path, spark: "SparkSession"
) -> History:
    return History(make_topics(make_topic, bootstrap_servers), tmp_path, spark)


@pytest.mark.long
def test_an_audit_goes_on_and_says_what_one_of_all_says(
    history: History, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The second from the events of a span, the third when all others are deleted."""
    first = history.go_on(0, 200)
    history.ingest(first)
    assert history.audit() == 0
    said = capsys.readouterr().out
    assert "All of " in said
    assert "has no audit that can be gone on from" in said
    history.ingest([*history.go_on(200, 400), first[-1]])  # It comes again, as after a crash.
    capsys.readouterr()
    assert history.audit() == 0
    went_on = capsys.readouterr().out
    assert history.audit(since_last=False) == 0
    assert capsys.readouterr().out == went_on
    assert f"{history.figures:,} figures in {len(history.emitted):,} emissions" in went_on
    progress = history.progress
    assert progress is not None
    # No window that ends later has older events; two ticks of one are for a key that falls silent.
    assert progress.needed[0] > 250
    gone = TopicPartition(history.topics.source, 0, progress.needed[0])
    admin = AdminClient({"bootstrap.servers": history.topics.bootstrap})
    deleted = [one.result(60) for one in admin.delete_records([gone]).values()]
    assert [one.low_watermark for one in deleted] == [progress.needed[0]]
    history.ingest(history.go_on(400, 600))
    capsys.readouterr()
    assert history.audit() == 0
    said = capsys.readouterr().out
    assert f"{history.figures:,} figures in {len(history.emitted):,} emissions" in said
    assert "+ 12 late" in said or "+ 11 late" in said
    report(str(history.file), history.lake, key=["k2"], output=tmp_path / "page.html")
    with pytest.raises(SlidestatError, match="no longer has"):
        history.audit(since_last=False)


@pytest.mark.long
@pytest.mark.parametrize("fault", ["wrong", "not there", "other"])
def test_what_is_wrong_since_the_last_audit_is_found(
    history: History, capsys: pytest.CaptureFixture[str], fault: str
) -> None:
    first = history.go_on(0, 200)
    history.ingest(first)
    assert history.audit() == 0
    new = history.go_on(200, 300)
    broken = first[3] if fault == "other" else new[10]
    count, *others = broken.figures
    wrong = msgspec.structs.replace(count, estimate=99.0, lower=99.0, upper=99.0)
    replaced = msgspec.structs.replace(broken, figures=[wrong, *others])
    match fault:
        case "wrong":
            new[10] = replaced
        case "not there":
            del new[10]
        case "other":
            new.append(replaced)
    history.ingest(new)
    capsys.readouterr()
    assert history.audit() == 1
    said = capsys.readouterr().out
    assert f"{broken.key} at {broken.window_end_ms}:" in said
    assert ("All of " in said) == (fault == "other")
    # It stays in the report of all audits.
    assert history.audit() == 1


@pytest.mark.long
def test_where_events_of_any_time_count_all_is_audited(
    make_topic: Callable[..., str],
    bootstrap_servers: str,
    tmp_path: Path,
    spark: "SparkSession",
    capsys: pytest.CaptureFixture[str],
) -> None:
    topics = make_topics(make_topic, bootstrap_servers)
    of_all = '[[statistics]]\nkind = "landmark_count"\n'
    history = History(topics, tmp_path, spark, of_all)
    history.ingest(history.go_on(0, 150))
    assert history.audit(since_last=False) == 0
    assert history.progress is None
    capsys.readouterr()
    assert history.audit() == 0
    assert "what it emits may rest on events of any time" in capsys.readouterr().out
