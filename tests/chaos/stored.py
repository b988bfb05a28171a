"""What workers have on disk, against the changelog that it is restored from."""

from collections.abc import Iterable

from benchmarks.size.stored import stopped_table
from slidestat.faust.fencing import FENCE_KEY, NO_EPOCH, Restored
from tests.broker.workers import Record, Stage, Worker
from tests.faust.simulation.worker import rows_of_changelog


def check_databases(stage: Stage, workers: Iterable[Worker]) -> int:
    """Assert that each database of these stopped workers, also of a partition that has long been
    another's, has exactly what the changelog has up to where the database says that it follows it;
    and that of each partition there is one with all, but for the fence of a worker that was stopped
    while it took the partition over. Returns the number of databases.
    """
    changelog = stage.read(stage.changelog)
    name = stage.topology.table_name
    databases = 0
    # By partition, the keys of what one database lacks or has beside all: as few as in any.
    differing: dict[int, set[bytes | None]] = {}
    for worker in workers:
        for path in sorted(worker.data_dir.rglob(f"{name}-*.db")):
            partition = int(path.stem.removeprefix(f"{name}-"))
            records = changelog[partition]
            with stopped_table(stage.topology, partition, worker.data_dir) as table:
                rows, last = rows_of_changelog(dict(table.database.items()))
            assert rows == restored(r for r in records if r.offset <= last), (path, last)
            databases += 1
            differs = {key for key, _ in rows.items() ^ restored(records).items()}
            differs.discard(FENCE_KEY)
            differing[partition] = min(differing.get(partition, differs), differs, key=len)
    assert differing == {partition: set() for partition in changelog}
    return databases


def restored(records: Iterable[Record]) -> dict[bytes | None, bytes]:
    """What records of a changelog come to: the newest of each key that an owner wrote."""
    owners, rows = Restored(NO_EPOCH), {}
    for record in records:
        if not owners.counts(record.headers):
            continue
        if record.value is None:
            rows.pop(record.key, None)
        else:
            rows[record.key] = record.value
    return rows
