"""Compaction: few files, each record once, wherever it is killed."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from slidestat.errors import SlidestatError
from slidestat.options import Tables
from slidestat.spark.lake import compaction
from slidestat.spark.lake.compaction import Compacted, Compaction, settle, swap
from slidestat.spark.lake.files import LakeFiles
from slidestat.spark.lake.ingest import Ingest
from slidestat.spark.lake.lake import Dataset, Lake
from slidestat.spark.lake.locks import locked
from tests.spark.lake_topics import DAY_MS, NOON_MS, Topics, emission, make_topics

STATISTICS = Dataset.STATISTICS


class Killed(BaseException):
    """The end of a process: nothing handles it."""


@pytest.fixture
def topics(make_topic: Callable[..., str], bootstrap_servers: str) -> Topics:
    return make_topics(make_topic, bootstrap_servers)


@pytest.fixture
def lake(tmp_path: Path, topics: Topics) -> Lake:
    return Lake(str(tmp_path / "lake"), topics.name)


def _offsets(lake: Lake) -> Counter[int]:
    """The offset of each row, as any reader of Parquet files sees them."""
    files = ds.dataset(lake.data(STATISTICS), partitioning="hive", exclude_invalid_files=False)
    return Counter(files.to_table(columns=["record_offset"])["record_offset"].to_pylist())


def _files(lake: Lake) -> list[str]:
    folder = Path(lake.data(STATISTICS))
    return sorted(str(path.parent.relative_to(folder)) for path in folder.rglob("*.parquet"))


def test_small_files_become_one_of_each_date(
    spark: SparkSession, topics: Topics, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same rows for whoever reads, fewer files; ingests go on beside what was merged; a batch
    that may come again is merged with nothing; killed in the middle it changes no row.
    """
    ingest = Ingest(spark, topics.bootstrap, lake, {STATISTICS: f"{topics.name}-statistics"}, 4)
    emissions = [emission(topics.name, f"k{i}", NOON_MS + i % 3 // 2 * DAY_MS) for i in range(12)]
    topics.emit(emissions)
    ingest.take_what_is_there()
    all_once = Counter(range(12))
    values = sorted(bytes(row.value) for row in lake.read(spark, STATISTICS).collect())
    dates = ("date=2025-11-25", "date=2025-11-26")
    assert _files(lake) == [f"{date}/batch={batch}" for date in dates for batch in range(3)]
    compaction = Compaction(spark, lake)

    # Spark has written batch 2, and was killed before it noted so: the batch comes again.
    noted = [Path(lake.checkpoint(STATISTICS), "commits", name) for name in ("2", ".2.crc")]
    kept = [(path, path.read_bytes()) for path in noted]
    for path in noted:
        path.unlink()
    assert compaction.run() == []
    for path, content in kept:
        path.write_bytes(content)

    with monkeypatch.context() as patch:
        patch.setattr(LakeFiles, "remove", _kill_at(lake.compaction, LakeFiles.remove, after=1))
        with pytest.raises(Killed):
            compaction.run()
    assert _offsets(lake) == all_once
    assert len(_files(lake)) == 4  # The first date had changed places.

    assert compaction.run() == [Compacted(STATISTICS, 1, 3, 1)]
    assert _files(lake) == [f"{date}/batch=2" for date in dates]
    assert not Path(lake.compaction).exists()
    assert sorted(bytes(row.value) for row in lake.read(spark, STATISTICS).collect()) == values
    assert compaction.run() == []

    topics.emit(emissions[:3])
    assert replace(ingest, records_per_batch=9).take_what_is_there()[0].records == 3
    assert _offsets(lake) == Counter(range(15))
    with locked(spark, lake, "ingest"), pytest.raises(SlidestatError, match="is writing to this"):
        compaction.run()


def _kill_at(
    folder: str, remove: Callable[[LakeFiles, str], None], after: int
) -> Callable[[LakeFiles, str], None]:
    asked = 0

    def removed(files: LakeFiles, path: str) -> None:
        nonlocal asked
        if path == folder:
            asked += 1
            if asked > after:
                raise Killed
        remove(files, path)

    return removed


@pytest.mark.parametrize("in_one_step", [True, False], ids=["exchanged", "renamed"])
@pytest.mark.parametrize("step", range(6))
def test_a_date_is_there_once_at_each_step(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: int,
    in_one_step: bool,
) -> None:
    """Killed before any step, the date is the old or the new one; where two renames are needed it
    may be nowhere, which a reader of ours is told, and the next job puts it back.
    """
    files, lake = LakeFiles(spark), Lake(str(tmp_path / "a lake"), "t")
    date = Path(lake.data(STATISTICS), "date=2025-11-25")
    new = Path(lake.compaction, "new", STATISTICS, date.name)
    for folder, name in ((date, "old"), (new, "new")):
        (folder / "batch=1").mkdir(parents=True)
        (folder / "batch=1" / name).touch()
    if not in_one_step:
        monkeypatch.setattr(compaction, "exchange", lambda *_: False)
    left = step

    def killing(call: Callable[..., object]) -> Callable[..., object]:
        def called(*given: object) -> object:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed
            return call(*given)

        return called

    with monkeypatch.context() as patch:
        for name in ("rename", "make_parent", "remove"):
            patch.setattr(LakeFiles, name, killing(getattr(LakeFiles, name)))
        patch.setattr(compaction, "exchange", killing(compaction.exchange))
        try:
            aside = f"{lake.compaction}/old/{STATISTICS}/{date.name}"
            swap(files, str(date), str(new), aside)
            settle(files, lake)
        except Killed:
            pass
        else:
            assert left >= 0
    there = [path.name for path in date.rglob("*") if path.is_file()]
    if there:
        assert there in (["old"], ["new"])
        lake._require_whole(files, STATISTICS)
    else:
        assert not in_one_step
        with pytest.raises(SlidestatError, match="is set aside by a compaction"):
            lake._require_whole(files, STATISTICS)
    settle(files, lake)
    assert [path.name for path in date.rglob("*") if path.is_file()] == (there or ["old"])
    assert not Path(lake.compaction).exists()


def test_object_stores_are_refused(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that is copied file by file, as one gets another name, could be there by half."""
    monkeypatch.setattr(Lake, "tables", lambda *_: Tables.PARQUET)  # Nobody answers there.
    with pytest.raises(SlidestatError, match="not renamed in one step") as told:
        Compaction(spark, Lake("http://store.example/lake", "t")).run()
    assert "larger batches" in told.value.advice
