"""One writer at a time in a lake, whoever is killed."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from slidestat.errors import SlidestatError
from slidestat.spark.lake import locks
from slidestat.spark.lake.files import LakeFiles
from slidestat.spark.lake.ingest import Ingest
from slidestat.spark.lake.lake import Dataset, Lake
from slidestat.spark.lake.locks import locked
from tests.spark.lake_topics import NOON_MS, Topics, emission, make_topics


@pytest.fixture
def topics(make_topic: Callable[..., str], bootstrap_servers: str) -> Topics:
    return make_topics(make_topic, bootstrap_servers)


@pytest.fixture
def lake(tmp_path: Path, topics: Topics) -> Lake:
    return Lake(str(tmp_path / "lake"), topics.name)


@pytest.mark.parametrize("root", ["lake[1]", "lakes/*", "{a,b}", r"s3a://lake\\1"])
def test_a_lake_is_no_pattern(root: str) -> None:
    """Of `lake[1]` Spark would read lake1, and write itself."""
    with pytest.raises(SlidestatError, match="is a pattern to Spark"):
        Lake(root, "flights")


def _ingest(spark: SparkSession, topics: Topics, lake: Lake, said: list[str]) -> int:
    wanted = {Dataset.STATISTICS: f"{topics.name}-statistics"}
    job = Ingest(spark, topics.bootstrap, lake, wanted, say=said.append)
    return sum(found.records for found in job.take_what_is_there())


def test_a_second_ingest_is_told_who_has_the_lake_and_tidies_nothing_away(
    spark: SparkSession, topics: Topics, lake: Lake
) -> None:
    """What the first one has half written stays; when it has ended, the second brings all."""
    topics.emit([emission(topics.name, f"k{i}", NOON_MS + i) for i in range(20)])
    half = Path(lake.data(Dataset.STATISTICS), ".spark-staging-of-the-first")
    with locked(spark, lake, "ingest") as first:
        half.mkdir(parents=True)
        with pytest.raises(SlidestatError, match="is writing to this lake") as told:
            _ingest(spark, topics, lake, [])
        assert f"The ingest of {locks.getpass.getuser()} on {socket.gethostname()}" in str(
            told.value
        )
        assert f"process {os.getpid()} since 2" in str(told.value)
        assert half.exists()
        first.require()
    assert _ingest(spark, topics, lake, []) == 20
    assert not half.exists()
    assert not Path(lake.lock).exists()


def test_the_lock_of_a_killed_job_is_taken(
    spark: SparkSession, topics: Topics, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once if it was killed on this machine; if elsewhere, when its lock has stood still; one
    that goes on writing it keeps it.
    """
    topics.emit([emission(topics.name, "k", NOON_MS)])
    killed = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    killed.kill()  # And not waited for: a zombie.
    owner = {"job": "ingest", "host": socket.gethostname(), "pid": killed.pid, "token": "a"}
    Path(lake.folder).mkdir(parents=True)
    Path(lake.lock).write_text(json.dumps(owner))
    said: list[str] = []
    assert (_ingest(spark, topics, lake, said), said) == (1, [])
    killed.communicate()

    monkeypatch.setattr(locks, "STILL_S", 0.5)
    owner |= {"host": "elsewhere", "user": "ann"}
    Path(lake.lock).write_text(json.dumps(owner))
    assert _ingest(spark, topics, lake, said) == 0
    assert said[0].startswith("The ingest of ann on elsewhere")

    Path(lake.lock).write_text(json.dumps(owner))

    def beat(_line: str) -> None:
        Path(lake.lock).write_text(json.dumps({**owner, "beats": 7}))

    with pytest.raises(SlidestatError, match="ann on elsewhere"), locked(spark, lake, "x", beat):
        pass
    Path(lake.lock).unlink()


def test_who_has_lost_its_lock_ends(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that stood still for so long that another took its lake writes no further batch, and
    leaves the other's lock alone.
    """
    monkeypatch.setattr(locks, "BEAT_S", 0.05)
    other = {"job": "backfill", "user": "ann", "token": "other"}
    with locked(spark, lake, "ingest") as lock:
        lock.require()
        LakeFiles(spark).write_over(lake.lock, json.dumps(other))
        lock._beating.join(10)
        with pytest.raises(SlidestatError, match=r"The backfill of ann .* has taken over"):
            lock.require()
    assert json.loads(Path(lake.lock).read_text()) == other
