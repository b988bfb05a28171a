"""`slidestat spark compact`: the small files of each date of a lake as few large ones.

Each record stays there once, for every reader and wherever this is killed. A date's rows are
written as large files outside of the dataset; then the folders of the date, the old and the new
one, trade places in one step, and the old one is removed. Only batches are merged that Spark
has noted as written: any other may come again, and replaces the files of its own number alone.

Delta tables are merged by Delta Lake, whose log then names the large files in place of the small.
"""

import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path

from pyspark.sql import SparkSession

from slidestat.errors import SlidestatError
from slidestat.options import Tables
from slidestat.spark.errors import in_words
from slidestat.spark.lake.delta_table import DeltaTable
from slidestat.spark.lake.files import LakeFiles
from slidestat.spark.lake.lake import STREAM, Dataset, Lake
from slidestat.spark.lake.locks import LakeLock, locked

# Two folders trade places: in one step where the file system of this machine can, which on Linux is
# every usual one; elsewhere in two renames, with the old folder set aside in between.

_AT_CWD = -100
_EXCHANGE = 2  # linux/fs.h: RENAME_EXCHANGE


def swap(files: LakeFiles, old: str, new: str, aside: str) -> None:
    """Put the folder `new` in the place of `old`, which is at `new` or `aside` then.

    Where that takes two renames, `old` is nowhere between them: `put_back` brings it from `aside`.
    Raises SlidestatError for a path that its file system refuses.
    """
    here, there = _folder_here(files, old), _folder_here(files, new)
    if here and there:
        _make_durable(Path(there))
        if exchange(here, there):
            return
    files.make_parent(aside)
    files.rename(old, aside)
    files.rename(new, old)


def put_back(files: LakeFiles, old: str, aside: str) -> None:
    """Bring back what a `swap` that was broken off between its renames has set aside."""
    if files.exists(aside) and not files.exists(old):
        files.rename(aside, old)


def exchange(one: str, other: str) -> bool:
    """Exchange two folders of a disk in one step; False where system or disk has no such step."""
    call = _renameat2()
    if call is None:
        return False
    return bool(call(_AT_CWD, os.fsencode(one), _AT_CWD, os.fsencode(other), _EXCHANGE) == 0)


@lru_cache(maxsize=1)
def _renameat2() -> "ctypes._NamedFuncPointer | None":
    if sys.platform != "linux":
        return None
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is not None:
        call.argtypes = (
            ctypes.c_int,
            ctypes.c_char_p,
            ctypes.c_int,
            ctypes.c_char_p,
            ctypes.c_uint,
        )
    return call


def _make_durable(folder: Path) -> None:
    """Sync the written files to disk, as those that they replace will be removed."""
    for path in (folder, *folder.rglob("*")):
        opened = os.open(path, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def _folder_here(files: LakeFiles, path: str) -> str:
    """Return the path of a folder on this machine's disk; "" for any other."""
    found = files.path_here(path)
    return found if found and Path(found).is_dir() else ""


FILE_BYTES = 128 * 2**20
"""No file becomes larger by much: a task of Spark reads as many bytes."""

# File systems whose folders get another name in one step; object stores copy each file.
_RENAMING = ("file:", "hdfs:", "viewfs:")
_ADVICE = "Run it again: what was merged stays, and the rest is as it was."


@dataclass
class Compacted:
    """The dates of a dataset that one run merged, and how many files they had before and after."""

    dataset: Dataset
    dates: int = 0
    files_before: int = 0
    files_after: int = 0


@dataclass(frozen=True)
class Compaction:
    """A merge of the files of a topology's part of a lake. `say` takes messages for a person."""

    spark: SparkSession
    lake: Lake
    say: Callable[[str], None] = print

    def run(self) -> list[Compacted]:
        """Merge the files of each date that has more than its size asks for.

        A running ingest gives it the lake between two of its batches. Raises SlidestatError while
        any other job writes to this part of the lake, and where folders of Parquet files cannot be
        renamed in one step. Cost: each date's rows are read and written once, one date after
        another.
        """
        files = LakeFiles(self.spark)
        if self.lake.tables(self.spark) is Tables.DELTA:
            # Delta's log alone would let an ingest continue, but not on a local disk or on S3:
            # there two drivers may both make a commit of the same number, and one of them is lost.
            with self._locked() as lock:
                done = [self._optimize(lock, dataset) for dataset in Dataset]
            return [compacted for compacted in done if compacted.dates]
        if not files.qualified(self.lake.folder).startswith(_RENAMING):
            raise SlidestatError(
                f"{self.lake.folder} lies where folders are not renamed in one step.",
                "Compact a lake on a disk or on HDFS; elsewhere ingest larger batches, less often.",
            )
        with self._locked() as lock:
            settle(files, self.lake)
            done = [self._compact(lock, files, dataset) for dataset in Dataset]
        return [compacted for compacted in done if compacted.dates]

    def _locked(self) -> AbstractContextManager[LakeLock]:
        return locked(self.spark, self.lake, "compaction", self.say, borrows=True)

    def _compact(self, lock: LakeLock, files: LakeFiles, dataset: Dataset) -> Compacted:
        compacted = Compacted(dataset)
        written = _last_written(files, self.lake, dataset)
        with in_words(f"The compaction of {self.lake.data(dataset)}", _ADVICE):
            for date in _folders(files, self.lake.data(dataset), "date="):
                folder = f"{self.lake.data(dataset)}/{date}"
                batches = [
                    int(name.partition("=")[2]) for name in _folders(files, folder, "batch=")
                ]
                before = sum(len(_parquet(files, f"{folder}/batch={it}")) for it in batches)
                wanted = -(-files.size(folder) // FILE_BYTES)
                if before <= max(1, wanted) or (written is not None and max(batches) > written):
                    continue
                lock.require()
                merged = f"{self.lake.compaction}/new/{dataset}/{date}"
                after = f"{merged}/batch={max(batches)}"
                self._merge(folder, after, wanted)
                swap(files, folder, merged, _aside(self.lake, dataset, date))
                compacted.dates += 1
                compacted.files_before += before
                compacted.files_after += len(_parquet(files, f"{folder}/batch={max(batches)}"))
                files.remove(self.lake.compaction)
        return compacted

    def _optimize(self, lock: LakeLock, dataset: Dataset) -> Compacted:
        table = DeltaTable(self.spark, self.lake.data(dataset))
        if not table.has_rows():
            return Compacted(dataset)
        lock.require()
        with in_words(f"The compaction of {table.path}", _ADVICE):
            return Compacted(dataset, *table.merge_files(FILE_BYTES))

    def _merge(self, folder: str, target: str, count: int) -> None:
        rows = self.spark.read.option("mergeSchema", True).parquet(folder).drop("batch")
        (
            rows.repartition(count)
            .sortWithinPartitions("record_partition", "record_offset")
            .write.option("compression", "zstd")
            .parquet(target)
        )
        read, written = (self.spark.read.parquet(path).count() for path in (folder, target))
        if read != written:
            raise SlidestatError(
                f"{folder} has {read:,} rows, and {written:,} came out of it merged.",
                "Its files are as they were. Check the disk, and run it again.",
            )


def settle(files: LakeFiles, lake: Lake) -> None:
    """Restore the date that a killed compaction had set aside, and remove its other files, before
    anything is written; the lake's lock must be held.
    """
    for dataset in Dataset:
        for date in files.names(f"{lake.compaction}/old/{dataset}"):
            put_back(files, f"{lake.data(dataset)}/{date}", _aside(lake, dataset, date))
    files.remove(lake.compaction)


def _aside(lake: Lake, dataset: Dataset, date: str) -> str:
    return f"{lake.compaction}/old/{dataset}/{date}"


def _last_written(files: LakeFiles, lake: Lake, dataset: Dataset) -> int | None:
    """Return the last batch that an ingest or a stream has committed, and will not write again, -1
    before the first; None for a backfill.
    """
    checkpoints = [lake.checkpoint(it) for it in (dataset, STREAM)]
    noted = [files.names(f"{it}/commits") for it in checkpoints if files.exists(it)]
    if not noted:
        return None
    return max((int(name) for name in chain(*noted) if name.isdecimal()), default=-1)


def _folders(files: LakeFiles, path: str, prefix: str) -> Iterator[str]:
    return (name for name in sorted(files.names(path)) if name.startswith(prefix))


def _parquet(files: LakeFiles, path: str) -> list[str]:
    return [name for name in files.names(path) if name.endswith(".parquet")]
