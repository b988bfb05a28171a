"""What a worker answers over HTTP, as JSON: the live figures of a key, keys, topologies, faults."""

from typing import Annotated

import msgspec
from msgspec import Meta

from schemas.emission import Figure


class KeyAnswer(msgspec.Struct, frozen=True):
    """A key's figures now, over windows that end at window_end_ms, events before it inside.

    The end is the watermark of the key's partition + 1 ms. Events at or after it that have been
    read wait for the watermark, and are not in the figures.
    """

    topology: Annotated[str, Meta(description="name of the topology")]
    key: Annotated[str, Meta(description="the events' key")]
    window_end_ms: Annotated[
        int, Meta(description="first millisecond after the windows, in event time")
    ]
    figures: Annotated[list[Figure], Meta(description="by statistic, short windows first")]
    source_topic: Annotated[str, Meta(description="topic of the events")]
    source_partition: Annotated[int, Meta(description="partition of the events")]
    next_offset: Annotated[
        int, Meta(description="offset of the partition's first record that is not read yet")
    ]


class KeyPage(msgspec.Struct, frozen=True):
    """Keys that have a state, in order of their characters."""

    topology: Annotated[str, Meta(description="name of the topology")]
    keys: Annotated[list[str], Meta(description="the page's keys")]
    next_after: Annotated[
        str | None, Meta(description="`after` of the next page, null on the last one")
    ]


class StatisticDescription(msgspec.Struct, frozen=True):
    """A statistic that a topology keeps."""

    name: Annotated[str, Meta(description="name of its figures")]
    kind: Annotated[str, Meta(description="what it is, such as quantile")]


class WorkerDescription(msgspec.Struct, frozen=True):
    """A worker of the group."""

    url: Annotated[str, Meta(description="where it answers")]
    partitions: Annotated[list[int], Meta(description="the source's partitions that it holds")]


class TopologyDescription(msgspec.Struct, frozen=True):
    """What a topology computes, and where."""

    name: Annotated[str, Meta(description="name of the topology")]
    source: Annotated[str, Meta(description="topic of the events")]
    output: Annotated[str, Meta(description="topic of the emissions")]
    span: Annotated[str, Meta(description="longest window that can be asked for")]
    windows: Annotated[list[str], Meta(description="windows that are emitted")]
    every: Annotated[str, Meta(description="time between two emissions")]
    lateness: Annotated[str, Meta(description="how far the watermark stays behind")]
    statistics: Annotated[list[StatisticDescription], Meta(description="what is kept")]
    workers: Annotated[list[WorkerDescription], Meta(description="who has its partitions")]


class TopologyList(msgspec.Struct, frozen=True):
    """The topologies of a worker."""

    topologies: Annotated[list[TopologyDescription], Meta(description="by name")]


class Health(msgspec.Struct, frozen=True):
    """How a worker is."""

    status: Annotated[str, Meta(description="ok: it runs; ready: it answers questions")]


class Fault(msgspec.Struct, frozen=True):
    """Why there is no answer."""

    error: Annotated[str, Meta(description="what is wrong")]
    advice: Annotated[str, Meta(description="what to do next")]
