"""States that become durable in the transaction of what they led to.

States, checkpoint and outputs of a partition are committed together. So a worker that restores the
changelog, as far as it is committed, has the very position behind the last record that a reader of
committed records sees, and writes what follows on that: nothing again, and nothing less.
"""

import asyncio
from collections.abc import Collection, Mapping

import faust

from slidestat.declare.declared import Declared
from slidestat.engine.checkpoints.checkpoint import Snapshot
from slidestat.errors import SlidestatError
from slidestat.faust.fencing import FENCE_KEY, SupersededError
from slidestat.faust.restore import newest_epoch
from slidestat.faust.table import Owned, StateTable, TablePartition, rows_of
from slidestat.kafka.producer import BulkProducer
from slidestat.kafka.transactional_producer import (
    LOOK_AT_COORDINATORS,
    FencedError,
    LostError,
    TransactionalProducer,
)

# The transactions of a topology's partitions, each with a transactional id of its own.
#
# The group gives a partition to one worker at a time. Its id is the partition's, so that the next
# owner fences a zombie off at the broker, and what a killed worker left open is aborted when its
# partitions are taken over, not when it times out.


class PartitionTransactions(BulkProducer):
    """A producer for the outputs of all partitions: each record goes into its partition's open
    transaction. It also sends requests to the brokers, outside of transactions.
    """

    def __init__(self, bootstrap_servers: str, transactional_prefix: str) -> None:
        super().__init__(bootstrap_servers)
        self._servers = bootstrap_servers
        self._prefix = transactional_prefix
        self._owned: dict[int, TransactionalProducer] = {}
        self._ended: list[TransactionalProducer] = []
        self._taking_over = asyncio.Lock()

    async def take_over(self, partitions: Collection[int]) -> None:
        """Fence off who had these partitions before, this worker included; raises SlidestatError
        if the brokers refuse. Cancelled, it ends once no call is under way: a late one would fence
        off who takes them over next.
        """
        async with self._taking_over:
            self.give_up(partitions)
            # The producers' threads end with them, which takes a moment.
            await asyncio.to_thread(self._ended.clear)
            new = {
                partition: TransactionalProducer(self._servers, f"{self._prefix}{partition}")
                for partition in partitions
            }
            is_wanted = True

            async def take(one: TransactionalProducer) -> None:
                nonlocal is_wanted
                try:
                    await one.take_over(lambda: is_wanted)
                except SlidestatError:
                    is_wanted = False
                    raise

            taken = asyncio.gather(*map(take, new.values()), return_exceptions=True)
            self.waits_for = f"its transactions cannot begin yet ({LOOK_AT_COORDINATORS})"
            try:
                with self.waiting():
                    outcomes = await asyncio.shield(taken)
            except asyncio.CancelledError:
                is_wanted = False
                await taken
                raise
            finally:
                self.waits_for = BulkProducer.waits_for
            for error in outcomes:
                if error is not None:
                    raise error
            self._owned.update(new)

    def give_up(self, partitions: Collection[int] | None = None) -> None:
        """Leave open transactions, of these partitions or all, for the next owner to abort."""
        for partition in tuple(self._owned if partitions is None else partitions):
            if partition in self._owned:
                self._ended.append(self._owned.pop(partition))

    def of(self, partition: int) -> TransactionalProducer:
        """Return the producer of a partition that was taken over; raises SupersededError for one
        that was given up since.
        """
        if partition not in self._owned:
            raise SupersededError
        return self._owned[partition]

    async def commit(self, partitions: Collection[int]) -> None:
        """Commit the open transactions of partitions; raises SupersededError if another worker has
        taken one over, or this one must take it over again.
        """
        done = await asyncio.gather(
            *(self.of(partition).commit() for partition in partitions), return_exceptions=True
        )
        for failed in done:
            if isinstance(failed, FencedError | LostError):
                raise SupersededError from failed
            if failed is not None:
                raise failed

    def produce(self, topic: str, partition: int, *record: object, **more: object) -> None:
        """Queue a record of a partition, of which the topic has as many as the source; nothing of
        one that was given up, which is read again.
        """
        if partition in self._owned:
            self._owned[partition].produce(topic, partition, *record, **more)  # type: ignore[arg-type]

    async def room(self) -> None:
        """Wait until few records of each partition are queued."""
        for producer in tuple(self._owned.values()):
            await producer.room()

    def send_now(self) -> None:
        """Do nothing: what is queued is seen once it is committed, and is sent by then."""

    def listen(self) -> None:
        """Take in what the clients of all partitions tell, and of those that were given up."""
        for producer in (*self._owned.values(), *self._ended):
            producer.listen()

    def fail(self, error: Exception) -> None:
        """Raise this error within seconds in every wait for acknowledgements, now or later."""
        super().fail(error)
        for producer in self._owned.values():
            producer.fail(error)

    def waited_s(self) -> float:
        """Return for how many seconds `waits_for` has been so; 0 if nothing is waited for."""
        owned = [producer.waited_s() for producer in self._owned.values()]
        return max([super().waited_s(), *owned])


class TransactionalTable(StateTable):
    """A table whose changelog is written in the `transactions` of the topology's outputs."""

    def __init__(
        self,
        app: faust.App,
        topology: Declared,
        partitions: int,
        changelog: BulkProducer,
        bootstrap_servers: str,
        changelog_id: str,
        transactions: PartitionTransactions,
    ) -> None:
        super().__init__(app, topology, partitions, changelog, bootstrap_servers, changelog_id)
        self._transactions = transactions

    async def before_highwaters(self, partitions: Collection[int]) -> None:
        """Abort what an owner before left open of these partitions, and wait for the marks of what
        it committed: what is committed is what readers of the changelog find then.
        """
        await self._transactions.take_over(partitions)

    async def write_fences(self, owners: Mapping[int, Owned]) -> dict[int, int]:
        """Write fences in transactions, too: a worker that was frozen while it took partitions over
        has a higher epoch than the owner since then if it reads of that before it writes its own.
        """
        producers = {partition: self._transactions.of(partition) for partition in owners}
        for partition, owner in owners.items():
            fence = [(FENCE_KEY, b"%d" % owner.epoch)]
            self.queue(partition, fence, owner, producers[partition])
        await self._transactions.commit(owners.keys())
        topic = self.changelog_topic
        return {partition: it.last_offset(topic, partition) for partition, it in producers.items()}

    async def write(self, snapshots: Mapping[TablePartition, Snapshot]) -> None:
        """Commit the snapshots of partitions with what was queued before; then to RocksDB.

        Raises SupersededError, with nothing in RocksDB, if another worker has taken one over, or
        this one must take it over again.
        """
        producers = {store: self._transactions.of(store.partition) for store in snapshots}
        rows = {store: list(rows_of(snapshot)) for store, snapshot in snapshots.items()}
        for store in snapshots:
            self._require_owned(store)
            self.queue(store.partition, rows[store], store.owner, producers[store])
        await self._transactions.commit([store.partition for store in snapshots])
        for store in snapshots:
            # The transaction's mark lies behind its last record.
            last = producers[store].last_offset(self.changelog_topic, store.partition)
            store.owner.last_offset = last + 1
            await asyncio.to_thread(self.store_rows, store, rows[store])

    async def write_again(self, store: TablePartition, keys: set[bytes]) -> None:
        """Write them in a transaction: of a worker that was one of at least once."""
        producer = self._transactions.of(store.partition)
        rows = [(key, store.database.get(key)) for key in sorted(keys)]
        self.queue(store.partition, rows, store.owner, producer)
        await self._transactions.commit([store.partition])
        last = producer.last_offset(self.changelog_topic, store.partition)
        store.owner.last_offset = last + 1
        await asyncio.to_thread(self.store_rows, store, rows)

    def _require_owned(self, store: TablePartition) -> None:
        """Raise SupersededError if a partition was given up since it was opened, also if it was
        taken over again, or if the fence of a later owner was found when it was taken over.
        """
        owner = store.owner
        is_current = self._owned.get(store.partition) is owner
        if not is_current or newest_epoch(store.database) > owner.epoch:
            raise SupersededError

    def give_up(self) -> None:
        super().give_up()
        self._transactions.give_up()
