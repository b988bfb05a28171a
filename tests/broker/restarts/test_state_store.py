"""The databases of a worker at its end."""

import os
from pathlib import Path

import faust
import pytest
import rocksdict

from slidestat.faust.fencing import epoch_header, replacing_epoch
from slidestat.faust.restore import OVERWRITTEN, StateStore, overwritten_keys, shared_memory
from slidestat.faust.table import TablePartition


@pytest.fixture
def store(tmp_path: Path) -> StateStore:
    """The store of a table that no worker runs."""
    app = faust.App("databases", datadir=str(tmp_path), store="rocksdb://")
    return StateStore("rocksdb://", app, app.Table("t", partitions=2), table_name="t")


def test_what_is_closed_is_free_while_others_hold_it(store: StateStore) -> None:
    """RocksDB's threads are those of its databases: one that is open while the process exits makes
    it end with a segmentation fault once in a while.
    """
    held = [store._db_for_partition(number) for number in (0, 1)]
    held[0].put(b"k", b"v")
    store.close()
    for number, database in enumerate(held):
        with pytest.raises(rocksdict.DbClosedError):
            database.get(b"k")
        path = str(store.partition_path(number))
        again = rocksdict.Rdict(path, rocksdict.Options(raw_mode=True))
        assert again.get(b"k") == (None if number else b"v")
        again.close()


def rows_of(database: rocksdict.Rdict) -> list[object]:
    return [*TablePartition(0, database).scan(), *overwritten_keys(database)]


@pytest.mark.parametrize("place", [0.0, 0.5, 0.9])
def test_a_damaged_block_ends_no_scan_in_silence(store: StateStore, place: float) -> None:
    """Bits that flipped on the disk, anywhere in a file that can be opened: neither are the keys
    behind them missing, nor does an old table keep them when all states are replaced.
    (HarperFast/rocksdb-js 846, tikv/tikv 4470)
    """
    database = store._db_for_partition(0)
    for key in range(2_000):
        database.put(b"k%05d" % key, os.urandom(100))
        database.put(OVERWRITTEN + b"k%05d" % key, b"")
    database.flush()
    assert len(rows_of(database)) == 4_000
    store.close()
    (file,) = store.partition_path(0).glob("*.sst")
    with file.open("r+b") as damaged:
        damaged.seek(int(place * file.stat().st_size))
        damaged.write(b"garbage" * 100)
    replaced = [(9, b"p", b"", epoch_header(replacing_epoch(0)))]
    for read in (
        lambda: rows_of(store._db_for_partition(0)),
        lambda: store.restore(0, replaced),
    ):
        store._dbs.clear()
        with pytest.raises(Exception, match=r"^Corruption: block checksum mismatch"):
            read()
        store.close()


def test_no_statistics_are_due_while_a_process_exits(store: StateStore) -> None:
    """An iterator that was not read to its end keeps a database open, closed or not."""
    store._db_for_partition(0)
    settings = next(store.partition_path(0).glob("OPTIONS-*")).read_text()
    assert "stats_dump_period_sec=0\n" in settings
    assert "stats_persist_period_sec=0\n" in settings
    store.close()


def test_all_partitions_share_their_memory(tmp_path: Path) -> None:
    """Eight partitions with 8 MiB each to write hold no more of it than all may together, and give
    it back when they are closed.
    """
    app = faust.App("shared", datadir=str(tmp_path), store="rocksdb://")
    table = app.Table("t", partitions=8, key_type=bytes, value_type=bytes)
    store = StateStore("rocksdb://", app, table, table_name="t")
    blocks, unwritten = shared_memory()
    most, value = unwritten.get_buffer_size(), os.urandom(1_000)
    for key in range(8_000):
        for partition in range(8):
            store._db_for_partition(partition).put(b"%d" % key, value)
        if key % 500 == 0:
            # What is on its way to a file is there until it is in it.
            assert unwritten.get_usage() < 2 * most
            assert blocks.get_usage() <= 2 * most
    store.close()
    assert unwritten.get_usage() < most // 8
