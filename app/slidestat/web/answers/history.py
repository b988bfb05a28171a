"""Read the past emissions of a key from the output topic, when somebody looks.

A worker keeps no history: the topic has it. Its newest records are read, those of other keys as
well, so a key among many may have few of its emissions there, or none.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from glob import escape

from slidestat.declare.referee import Referee
from slidestat.declare.topology import Topology, require_emissions
from slidestat.kafka.read.emission_reader import EmissionReader
from slidestat.schemas.emission import Emission

# Of a key's emissions, the newest.
MOST_EMISSIONS = 300
_LONGEST_S = 4.0

# Asked with a topology, a partition and a key of it.
History = Callable[[Topology | Referee, int, str], Awaitable[list[Emission]]]


class OutputHistory:
    """Reads histories in a thread: the worker's own work goes on."""

    def __init__(self, bootstrap: str, registry: str) -> None:
        self._bootstrap = bootstrap
        self._registry = registry

    async def __call__(
        self, topology: Topology | Referee, partition: int, key: str
    ) -> list[Emission]:
        """The key's newest emissions among the last records of its partition, by window end; of
        several with one end, the last.

        Costs a read of up to `TAIL_RECORDS` records, at most 4 s. Raises SlidestatError if the
        broker, or the schema registry that they need, does not answer, and for rows.
        """
        if isinstance(topology, Topology):
            require_emissions(topology, "the history of a key")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, self._read, topology, partition, key)

    def _read(self, topology: Topology | Referee, partition: int, key: str) -> list[Emission]:
        reader = EmissionReader(
            self._bootstrap,
            topology.output_topic,
            (partition,),
            key_glob=escape(key),
            once=True,
            registry=self._registry,
        )
        newest: dict[int, Emission] = {}
        until = time.monotonic() + _LONGEST_S
        for batch in reader.batches():
            newest.update({record.emission.window_end_ms: record.emission for record in batch})
            if time.monotonic() > until:
                break
        return [newest[end] for end in sorted(newest)[-MOST_EMISSIONS:]]
