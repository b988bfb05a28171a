"""States that become durable in the transaction of what they led to.

States, checkpoint and outputs of a partition are committed together. So a worker that restores the
changelog, as far as it is committed, has the very position behind the last record that a reader of
committed records sees, and writes what follows on that: nothing again, and nothing less.
"""

import asyncio
from collections.abc import Collection, Mapping

import faust

from slidestat.declare.referee import Referee
from slidestat.declare.topology import Topology
from slidestat.engine.checkpoints.snapshot import Snapshot
from slidestat.faust.exactly_once.transactions import PartitionTransactions
from slidestat.faust.fencing import SupersededError
from slidestat.faust.table import StateTable, TablePartition, rows_of
from slidestat.kafka.producer import BulkProducer


class TransactionalTable(StateTable):
    """A table whose changelog is written in the `transactions` of the topology's outputs."""

    def __init__(
        self,
        app: faust.App,
        topology: Topology | Referee,
        partitions: int,
        changelog: BulkProducer,
        bootstrap_servers: str,
        transactions: PartitionTransactions,
    ) -> None:
        super().__init__(app, topology, partitions, changelog, bootstrap_servers)
        self._transactions = transactions

    async def before_highwaters(self, partitions: Collection[int]) -> None:
        """Abort what an owner before left open of these partitions, and wait for the marks of what
        it committed: what is committed is what readers of the changelog find then.
        """
        await self._transactions.take_over(partitions)

    async def write(self, snapshots: Mapping[TablePartition, Snapshot]) -> None:
        """Commit the snapshots of partitions with what was queued before; then to RocksDB.

        Raises SupersededError, with nothing in RocksDB, if another worker has taken one over.
        """
        producers = {store: self._transactions.of(store.partition) for store in snapshots}
        for store, snapshot in snapshots.items():
            if self.is_superseded(store.partition):
                raise SupersededError
            self.queue(store.partition, rows_of(snapshot), producers[store])
        await self._transactions.commit([store.partition for store in snapshots])
        loop = asyncio.get_running_loop()
        for store, snapshot in snapshots.items():
            # The transaction's mark lies behind its last record.
            end = producers[store].last_offset(self.changelog_topic, store.partition) + 1
            await loop.run_in_executor(None, self.store_snapshot, store, snapshot, end)
