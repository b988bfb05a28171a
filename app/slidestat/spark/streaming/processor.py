"""Spark's stateful operator over shards, with their tables in its state store.

Spark also asks a process of its own for the states that there are, whenever a query starts: what a
batch needs is imported when the first one comes.
"""

from collections.abc import Iterator
from functools import lru_cache
from pickle import loads
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import TimerValues

    from slidestat.declare.topology import Topology
    from slidestat.engine.decoding.decoder import EventDecoder
    from slidestat.engine.emissions.emission_codec import EmissionWriter
    from slidestat.spark.streaming.shard import StoredState


class _SparkTable:
    """The `ShardTable` of the shard that Spark's handle is set to."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._head = handle.getValueState("head", "head binary")
        self._states = handle.getMapState("states", "key string", "state binary, listed bigint")
        self._blocks = handle.getMapState("blocks", "number bigint", "block binary")

    def head(self) -> bytes | None:
        found = self._head.get()
        return None if found is None else bytes(found[0])

    def put_head(self, head: bytes) -> None:
        self._head.update((head,))

    def state(self, key: str) -> "StoredState | None":
        from slidestat.spark.streaming.shard import StoredState

        found = self._states.getValue((key,))
        return None if found is None else StoredState(bytes(found[0]), found[1])

    def put_state(self, key: str, stored: "StoredState") -> None:
        self._states.updateValue((key,), tuple(stored))

    def delete_state(self, key: str) -> None:
        self._states.removeKey((key,))

    def block(self, number: int) -> bytes:
        found = self._blocks.getValue((number,))
        if found is None:
            raise KeyError(number)
        return bytes(found[0])

    def put_block(self, number: int, block: bytes) -> None:
        self._blocks.updateValue((number,), (block,))

    def delete_block(self, number: int) -> None:
        self._blocks.removeKey((number,))


class ShardProcessor(StatefulProcessor):
    """A processor of the shards that Spark gives to a task."""

    def __init__(self, topology: bytes, partitions: int, places: dict[str, int]) -> None:
        """Create the processor of a pickled topology, whose keys are spread over `partitions`
        partitions; 0 if the records have their own. `places` are the shards of expected keys.
        """
        self._topology = topology
        self._partitions = partitions
        self._places = places

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the states of a task."""
        self._table = _SparkTable(handle)

    def handleInputRows(  # noqa: N802  Spark's name
        self,
        key: Any,  # noqa: ARG002
        rows: "Iterator[pd.DataFrame]",
        timerValues: "TimerValues",  # noqa: ARG002, N803
    ) -> "Iterator[pd.DataFrame]":
        """Process what a batch has of a shard."""
        import pandas as pd

        from slidestat.spark.streaming.blocks import blocks_of_effects, in_order
        from slidestat.spark.streaming.shard import Shard, ShardPlace

        topology, decoder, codec = _reading(self._topology)
        frames = list(rows)
        number = int(frames[0]["shard"].iloc[0])
        expected = [name for name, place in self._places.items() if place == number]
        place = ShardPlace(number, self._partitions, expected)
        shard = Shard(topology, place, self._table, decoder, codec)
        blocks = (block for frame in frames for block in frame["block"])
        steps = shard.process(in_order(topology, number, blocks, shard.next_offset))
        for block in blocks_of_effects(steps, topology, number):
            yield pd.DataFrame({"block": [block]})

    def close(self) -> None:
        """Do nothing: Spark closes the states."""


@lru_cache(maxsize=4)
def _reading(pickled: bytes) -> "tuple[Topology, EventDecoder, EmissionWriter]":
    """Return a topology, its decoder and its codec: once in a process, for all of its batches."""
    from slidestat.engine.decoding.decoder import EventDecoder
    from slidestat.engine.emissions.output_codec import emission_writer

    topology: Topology = loads(pickled)  # noqa: S301  It comes with the job.
    return topology, EventDecoder(topology), emission_writer(topology, "")
