"""Statistics as output records."""

from collections.abc import Sequence

import msgspec

from app.streaming.topology import Topology
from schemas.statistic import Statistic, statistic_key

# Key, value and timestamp (the window's end) of a record for the output topic. A plain tuple: there
# may be as many of them as events.
OutputRecord = tuple[bytes, bytes, int]


class StatisticEncoder:
    """Writes the statistics of one source partition. About 1 microsecond a record."""

    def __init__(self, topology: Topology, topic: str, partition: int) -> None:
        self._topology = topology.name
        self._source = (topic, partition)
        self._figures = []
        for statistic in topology.statistics:
            relative_error = statistic.parameters(topology.span_ms).relative_error
            promise = (statistic.epsilon, relative_error, statistic.absolute_error)
            self._figures += [(statistic.name, ms, *promise) for ms in topology.windows_ms]
        self._encode = msgspec.json.Encoder().encode

    def encode(
        self, key: str, tick: int, figures: Sequence[Sequence[float]], source_offset: int
    ) -> list[OutputRecord]:
        """The records of one key and tick: one for each of the topology's statistics and, within
        it, windows. `figures` has (estimate, lower, upper) for each in that order.
        """
        encode = self._encode
        topology = self._topology
        topic, partition = self._source
        records = []
        for (name, window, epsilon, relative, absolute), (estimate, lower, upper) in zip(
            self._figures, figures, strict=True
        ):
            value = Statistic(
                topology,
                name,
                key,
                tick - window,
                tick,
                window,
                estimate,
                lower,
                upper,
                epsilon,
                relative,
                absolute,
                topic,
                partition,
                source_offset,
            )
            records.append((statistic_key(topology, name, key, window, tick), encode(value), tick))
        return records
