"""States that become durable in the transaction of what they led to.

States, checkpoint and outputs of a partition are committed together. So a worker that restores the
changelog, as far as it is committed, has the very position behind the last record that a reader of
committed records sees, and writes what follows on that: nothing again, and nothing less.
"""

import asyncio
from collections.abc import Collection, Mapping

import faust

from slidestat.declare.topology import Topology
from slidestat.engine.checkpoints.snapshot import Snapshot
from slidestat.faust.exactly_once.transactions import PartitionTransactions
from slidestat.faust.table import StateTable, TablePartition, rows_of
from slidestat.kafka.producer import BulkProducer


class TransactionalTable(StateTable):
    """A table whose changelog is written in the `transactions` of the topology's outputs."""

    def __init__(
        self,
        app: faust.App,
        topology: Topology,
        partitions: int,
        changelog: BulkProducer,
        bootstrap_servers: str,
        transactions: PartitionTransactions,
    ) -> None:
        super().__init__(app, topology, partitions, changelog, bootstrap_servers)
        self._transactions = transactions

    async def own(
        self, restored: Mapping[int, int], emptied: Collection[int], generation: int
    ) -> dict[int, int]:
        """As of every table. What an owner before left open is aborted first, so that what is
        committed lies before the fence, and is restored.
        """
        await self._transactions.take_over(restored.keys())
        return await super().own(restored, emptied, generation)

    async def write(self, snapshots: Mapping[TablePartition, Snapshot]) -> None:
        """Commit the snapshots of partitions with what was queued before; then to RocksDB.

        Raises SupersededError, with nothing in RocksDB, if another worker has taken one over.
        """
        for store, snapshot in snapshots.items():
            producer = self._transactions.of(store.partition)
            self.queue(store.partition, rows_of(snapshot), producer)
        await self._transactions.commit([store.partition for store in snapshots])
        loop = asyncio.get_running_loop()
        for store, snapshot in snapshots.items():
            producer = self._transactions.of(store.partition)
            # The transaction's mark lies behind its last record.
            end = producer.last_offset(self.changelog_topic, store.partition) + 1
            await loop.run_in_executor(None, self.store_snapshot, store, snapshot, end)
