"""Read the past emissions of a key from the output topic, on request.

A worker keeps no history: the topic has it. It is read from its end, with the records of other
keys, for a few seconds at most: the newest emissions are there, and the answer has a mark if older
ones were cut off.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable

from slidestat.declare.declared import Declared, require_emissions
from slidestat.engine.emissions.emission_codec import NotAnEmissionError
from slidestat.engine.emissions.output_codec import AnyFormat
from slidestat.kafka.read.scan import Clock, NewestFirst, reading
from slidestat.schemas.emission import Emission, emission_key
from slidestat.schemas.query import KeyHistory
from slidestat.schemas.sequence import kinds
from slidestat.text import iso_time

# The newest emissions of a key that are answered.
MOST_EMISSIONS = 300
# Reading takes this much of the time of the worker's own work, whatever the topic's length.
_MOST_RECORDS = 100_000
_LONGEST_S = 4.0
_END = re.compile(rb",(-?[0-9]{1,19})\]\Z")

# Asked with a topology, a partition and a key of it.
History = Callable[[Declared, int, str], Awaitable[KeyHistory]]


class OutputHistory:
    """A reader of histories in a thread, so that the worker's own work continues."""

    def __init__(self, bootstrap: str, registry: str, clock: Clock = time.monotonic) -> None:
        self._bootstrap = bootstrap
        self._registry = registry
        self._clock = clock

    async def __call__(self, topology: Declared, partition: int, key: str) -> KeyHistory:
        """Return the key's newest emissions in its partition, by window end; of several with one
        end, the last.

        Takes 4 s at most, and 100,000 records. Raises SlidestatError if the broker, or the schema
        registry that they need, does not answer, and for rows.
        """
        require_emissions(topology, "the history of a key")
        return await asyncio.to_thread(self._read, topology, partition, key)

    def _read(self, topology: Declared, partition: int, key: str) -> KeyHistory:
        decode = AnyFormat(self._registry).decode
        of_topology = emission_key(topology.name, "", 0).partition(b'"",')[0]
        of_key = emission_key(topology.name, key, 0).removesuffix(b"0]")
        newest: dict[int, Emission] = {}
        records = 0
        after: int | None = None
        with reading(self._bootstrap, topology.output_topic) as consumer:
            partition_read = NewestFirst(consumer, topology.output_topic, partition)
            for piece in partition_read.pieces(self._clock() + _LONGEST_S, self._clock):
                records += len(piece)
                for message in reversed(piece):
                    name = message.key() or b""
                    end = _window_end(name) if name.startswith(of_topology) else None
                    if end is None:
                        continue
                    after = end
                    if name.startswith(of_key) and after not in newest:
                        try:
                            newest[after] = decode(message.value() or b"")
                        except NotAnEmissionError:
                            continue
                if len(newest) > MOST_EMISSIONS or records >= _MOST_RECORDS:
                    break
        ends = sorted(newest)
        kept = [newest[end] for end in ends[-MOST_EMISSIONS:]]
        if len(ends) > MOST_EMISSIONS:
            after, why = ends[-MOST_EMISSIONS - 1], f"it has the newest {MOST_EMISSIONS} emissions"
        elif partition_read.has_all:
            after, why = None, None
        elif records >= _MOST_RECORDS:
            why = f"records before the newest {records:,} were not read"
        else:
            why = f"older records were not read in {_LONGEST_S:.0f} s"
        kind = kinds(is_sequence=topology.is_sequence).key_history
        return kind(topology.name, key, kept, after, why and _cut(after, why, topology))


def _window_end(name: bytes) -> int | None:
    """Return where the window of an emission ends, by its record's key; None for what is none."""
    found = _END.search(name)
    return None if found is None else int(found[1])


def _cut(after: int | None, why: str, topology: Declared) -> str:
    if after is None:
        return f"The history is not known: {why}."
    since = f"{after:,}" if topology.is_sequence else iso_time(after)
    return f"The history begins after {since}: {why}."
