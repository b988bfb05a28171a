"""An ingest that goes on lends its lake to a compaction between two batches, and goes on then."""

import json
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from slidestat.errors import SlidestatError
from slidestat.options import Tables
from slidestat.spark.lake import locks
from slidestat.spark.lake.compaction import Compaction
from slidestat.spark.lake.ingest import Ingest
from slidestat.spark.lake.lake import Dataset, Lake
from slidestat.spark.lake.locks import LakeLock, locked
from tests.spark.lake_topics import NOON_MS, emission, make_topics

_PATIENCE_S = 120


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "BEAT_S", 0.2)
    monkeypatch.setattr(locks, "_LOOKS_S", 0.05)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path / "lake"), "t")


@pytest.fixture
def came_back() -> list[str]:
    """Is added to when a lock that was lent comes back."""
    return []


@pytest.fixture
def lent(spark: SparkSession, lake: Lake, came_back: list[str]) -> Iterator[LakeLock]:
    """The lock of a job that lends it."""
    with locked(spark, lake, "ingest", lends=lambda: came_back.append("back")) as lock:
        yield lock


def awaited(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_it_is_lent_between_two_writes(
    spark: SparkSession, lake: Lake, lent: LakeLock, came_back: list[str]
) -> None:
    """Who asks waits for a write that is under way; who writes next waits until it is back; and it
    is seen to before that.
    """
    order: list[str] = []

    def borrow() -> None:
        with locked(spark, lake, "compaction", order.append, borrows=True) as lock:
            lock.require()
            order.append("borrowed")
            time.sleep(0.5)
            order.append("given back")

    borrower = threading.Thread(target=borrow)
    with lent.writing():
        borrower.start()
        awaited(lambda: order)
        time.sleep(1)
        order.append("written")
    awaited(lambda: "borrowed" in order)
    with lent.writing():
        order.append(f"written again, {came_back}")
    borrower.join()
    said, *rest = order
    assert said.endswith("is writing to this lake: waiting for the end of its batch.")
    assert rest == ["written", "borrowed", "given back", "written again, ['back']"]
    owner = json.loads(Path(lake.lock).read_text())
    assert owner["job"] == "ingest"
    assert not Path(lake.lock).with_name("_lock_wanted.json").exists()


def test_a_job_that_does_not_lend_is_waited_for_by_nobody(spark: SparkSession, lake: Lake) -> None:
    with locked(spark, lake, "ingest"):
        with (
            pytest.raises(SlidestatError, match="is writing to this lake"),
            locked(spark, lake, "compaction", borrows=True),
        ):
            pass
        assert [path.name for path in Path(lake.folder).glob("*.json")] == ["_lock.json"]


def test_one_waits_at_a_time(spark: SparkSession, lake: Lake, lent: LakeLock) -> None:
    """A second one is told who waits, and its wait ends nobody's."""
    first: list[str] = []

    def borrow() -> None:
        with locked(spark, lake, "compaction", first.append, borrows=True):
            first.append("borrowed")

    borrower = threading.Thread(target=borrow)
    with lent.writing():
        borrower.start()
        awaited(Path(lake.lock).with_name("_lock_wanted.json").exists)
        with (
            pytest.raises(SlidestatError, match="waits for this lake already"),
            locked(spark, lake, "compaction", borrows=True),
        ):
            pass
    borrower.join()
    assert first[1:] == ["borrowed"]


@pytest.mark.parametrize("has_it", [False, True])
@pytest.mark.parametrize("host", ["here", "elsewhere"])
def test_who_borrows_and_is_killed_keeps_it_from_nobody(
    lake: Lake,
    lent: LakeLock,
    came_back: list[str],
    host: str,
    has_it: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While it waits, and when it has the lock; on this machine, and on another."""
    borrower = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    owner = {"job": "compaction", "pid": borrower.pid, "token": "x"}
    owner["host"] = socket.gethostname() if host == "here" else host
    wanted = Path(lake.lock).with_name("_lock_wanted.json")
    if has_it:
        # It lives, and nobody's stillness is told yet, until it has the lock.
        wanted.write_text(json.dumps(owner))
        awaited(lambda: not Path(lake.lock).exists())
        Path(lake.lock).write_text(json.dumps(owner))
        wanted.unlink()
    borrower.kill()
    borrower.communicate()
    monkeypatch.setattr(locks, "STILL_S", 1.0)
    if not has_it:
        wanted.write_text(json.dumps(owner))
    awaited(lambda: came_back)
    with lent.writing():
        assert json.loads(Path(lake.lock).read_text())["job"] == "ingest"
    awaited(lambda: not wanted.exists())
    time.sleep(0.5)
    assert came_back == ["back"]


def test_a_lake_that_another_has_taken_meanwhile_is_written_no_more(
    lake: Lake, lent: LakeLock
) -> None:
    """A third job that was quicker than the one that asked."""
    asking = {"job": "compaction", "host": socket.gethostname(), "pid": 1, "token": "x"}
    wanted = Path(lake.lock).with_name("_lock_wanted.json")
    wanted.write_text(json.dumps(asking))
    awaited(lambda: not Path(lake.lock).exists())
    third = {"job": "backfill", "user": "ann", "host": "there", "pid": 1, "token": "y"}
    Path(lake.lock).write_text(json.dumps(third))
    wanted.unlink()
    with pytest.raises(SlidestatError, match="The backfill of ann on there"), lent.writing():
        pass
    assert json.loads(Path(lake.lock).read_text()) == third


@pytest.mark.parametrize(
    "tables", [Tables.PARQUET, pytest.param(Tables.DELTA, marks=pytest.mark.long)]
)
def test_a_compaction_beside_an_ingest_that_goes_on(
    spark: SparkSession,
    make_topic: Callable[..., str],
    bootstrap_servers: str,
    tmp_path: Path,
    tables: Tables,
) -> None:
    """Small files become one while batches come, and each record is there once in the end."""
    topics = make_topics(make_topic, bootstrap_servers)
    lake = Lake(str(tmp_path / "lake"), topics.name)
    wanted = {Dataset.STATISTICS: f"{topics.name}-statistics"}
    said: list[str] = []
    ingest = Ingest(spark, topics.bootstrap, lake, wanted, 1, say=said.append, tables=tables)
    following = threading.Thread(target=ingest.follow, args=(100,))
    following.start()

    def offsets() -> Counter[int]:
        if not lake.has(spark, Dataset.STATISTICS):
            return Counter()
        rows = lake.read(spark, Dataset.STATISTICS).select("record_offset").collect()
        return Counter(row.record_offset for row in rows)

    try:
        topics.emit([emission(topics.name, "k", NOON_MS + i) for i in range(12)])
        awaited(lambda: len(offsets()) >= 6 or not following.is_alive())
        done = Compaction(spark, lake, said.append).run()
        assert [found.dates for found in done] == [1]
        assert done[0].files_after == 1 < done[0].files_before
        topics.emit([emission(topics.name, "k", NOON_MS + i) for i in range(12, 15)])
        awaited(lambda: len(offsets()) == 15 or not following.is_alive())
        assert offsets() == Counter(range(15))
        assert any("waiting for the end of its batch" in line for line in said)
    finally:
        for query in spark.streams.active:
            query.stop()
        following.join(_PATIENCE_S)
    assert not following.is_alive()
