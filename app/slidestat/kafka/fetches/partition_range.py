"""Part of a partition, read as columns by a client that belongs to no group."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError

from slidestat.errors import SlidestatError
from slidestat.kafka.fetches.columns import FetchedColumns, Fetches, keep_fetched_bytes
from slidestat.kafka.oauth import token_provider
from slidestat.kafka.settings import CarriedSecurity

# A fetch is asked for when the one before has been read through: a large one waits less.
_FETCH_BYTES = 16 * 2**20
_LOOK_MS = 1_000
# An election of leaders may take a minute, and a job of hours must outlast it.
_SILENCE_S = 120.0


class PartitionRange(NamedTuple):
    """The offsets of a partition from `first` to before `end`."""

    topic: str
    partition: int
    first: int
    end: int


def read_range(
    bootstrap: str, security: CarriedSecurity, wanted: PartitionRange, max_records: int
) -> Iterator[FetchedColumns]:
    """Yield the committed records of a range in order, up to `max_records` at once. Memory: a fetch
    of 16 MiB. Cost: 0.15 us a record.

    Raises SlidestatError if the broker refuses, is silent for 120 s, or no longer has the records.
    """
    keep_fetched_bytes()
    with asyncio.Runner() as runner:
        reader = _RangeReader(bootstrap, security, wanted)
        try:
            runner.run(reader.open())
            while (columns := runner.run(reader.next(max_records))) is not None:
                yield columns
        except OffsetOutOfRangeError as error:
            raise SlidestatError(
                f"Partition {wanted.partition} of {wanted.topic!r} has lost records from offset"
                f" {reader.position:,} on: retention took them while they were read.",
                "Run the job again: it takes what there is then.",
            ) from error
        except KafkaError as error:
            raise SlidestatError(
                f"Partition {wanted.partition} of {wanted.topic!r} cannot be read: {error}.",
                f"Check that {bootstrap} is up, and what this user may read.",
            ) from error
        finally:
            runner.run(reader.close())


class _RangeReader:
    """A client for one range; `position` is where it reads on."""

    def __init__(self, bootstrap: str, security: CarriedSecurity, wanted: PartitionRange) -> None:
        self._wanted = wanted
        self._place = TopicPartition(wanted.topic, wanted.partition)
        self._bootstrap, self._security = bootstrap, security
        self._consumer: Any = None
        self.position = wanted.first

    async def open(self) -> None:
        settings, wanted = self._security.settings, self._wanted
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap,
            client_id="slidestat",
            enable_auto_commit=False,
            auto_offset_reset="none",
            isolation_level="read_committed",
            max_partition_fetch_bytes=_FETCH_BYTES,
            security_protocol=settings.protocol,
            ssl_context=self._security.tls_context(),
            sasl_mechanism=settings.wire_mechanism or "PLAIN",
            sasl_plain_username=settings.username,
            sasl_plain_password=settings.password,
            sasl_oauth_token_provider=token_provider(self._security),
        )
        await self._consumer.start()
        fetcher = self._consumer._fetcher
        fetcher._records = Fetches({wanted.topic}, fetcher._records)
        self._consumer.assign([self._place])
        self._consumer.seek(self._place, wanted.first)

    async def next(self, max_records: int) -> FetchedColumns | None:
        """Return the next records; None at the end."""
        self.position = await self._consumer.position(self._place)
        deadline = time.monotonic() + _SILENCE_S
        while self.position < self._wanted.end:
            fetched = await self._consumer.getmany(
                self._place, timeout_ms=_LOOK_MS, max_records=max_records
            )
            if fetched:
                columns = cast(FetchedColumns, fetched[self._place]).before(self._wanted.end)
                return columns if len(columns) else None
            # The position moves on over transaction markers and other offsets without records.
            before, self.position = self.position, await self._consumer.position(self._place)
            if self.position > before:
                deadline = time.monotonic() + _SILENCE_S
            elif time.monotonic() > deadline:
                raise KafkaError(f"no records came for {_SILENCE_S:.0f} s")
        return None

    async def close(self) -> None:
        if self._consumer is not None:
            await self._consumer.stop()
