"""Figures as output records."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from app.streaming.output_codec import EmissionCodec
from app.streaming.statistics.base import Promise, Series
from app.streaming.topology import Topology
from schemas.emission import Emission, Figure, emission_key

Float64s = npt.NDArray[np.float64]

# Key, value and timestamp (the windows' end) of a record for the output topic. A plain tuple: there
# may be as many of them as events.
OutputRecord = tuple[bytes, bytes, int]

# A figure's name, and all that comes after its three numbers.
_Template = tuple[str, tuple[Any, ...]]


class FigureTable:
    """What a topology's synopses answered, as the figures of its statistics."""

    def __init__(self, topology: Topology, windows: Sequence[int]) -> None:
        self._statistics = topology.statistics
        self._runners = topology.runners
        self._windows = np.array(windows, np.float64)
        span = topology.span_length
        self._templates: list[_Template] = []
        for statistic, label in zip(topology.statistics, topology.labels, strict=True):
            promise = statistic.promise(span.length)
            for window in (None,) if statistic.is_landmark else windows:
                lengths = (None, window) if span.of_events else (window, None)
                self._templates += [
                    (label, _tail(lengths, series, promise)) for series in statistic.series()
                ]

    def rows(self, answers: Mapping[object, Mapping[str, Float64s]]) -> list[list[Figure]]:
        """The figures of each query; `answers` are those of each runner."""
        tables = []
        for statistic, runner in zip(self._statistics, self._runners, strict=True):
            numbers = statistic.numbers(answers[runner], self._windows)
            queries, windows, series = numbers.shape[1:]
            tables.append(numbers.reshape(3, queries, windows * series))
        # [queries, figures, 3]
        table = np.moveaxis(np.concatenate(tables, axis=2), 0, 2).tolist()
        templates = self._templates
        return [
            [
                Figure(label, estimate, lower, upper, *tail)
                for (label, tail), (estimate, lower, upper) in zip(templates, row, strict=True)
            ]
            for row in table
        ]


class EmissionEncoder:
    """Writes the emissions of one source partition."""

    def __init__(
        self, topology: Topology, topic: str, partition: int, codec: EmissionCodec
    ) -> None:
        self._topology = topology.name
        self._source = (topic, partition)
        self._encode = codec.encode

    def encode(
        self,
        key: str,
        tick: int,
        figures: list[Figure],
        source_offset: int,
        *,
        provisional: bool = False,
    ) -> OutputRecord:
        """The record of one key and tick."""
        topic, partition = self._source
        emission = Emission(
            self._topology, key, tick, figures, topic, partition, source_offset, provisional
        )
        return emission_key(self._topology, key, tick), self._encode(emission), tick


def _tail(
    lengths: tuple[int | None, int | None], series: Series, promise: Promise
) -> tuple[Any, ...]:
    tail = (
        *lengths,
        series.quantile,
        None,
        series.at_least,
        series.below,
        promise.relative_error,
        promise.absolute_error,
        promise.share_error,
        promise.deviation_error,
        promise.confidence,
    )
    # msgspec leaves out what is the default itself, not what equals it.
    return tuple(
        default if value == default else value
        for value, default in zip(tail, Figure.__struct_defaults__, strict=True)
    )
