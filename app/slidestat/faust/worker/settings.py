"""Settings of a worker process."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from faust.web.base import Web

from slidestat.declare.declared import Declared
from slidestat.engine.decoding.formats.source_schemas import Registry
from slidestat.engine.emissions.emission_codec import EmissionWriter
from slidestat.engine.extent import WHOLE, Extent
from slidestat.errors import SlidestatError
from slidestat.faust.delivery import BatchApp
from slidestat.faust.source.key_watch import KeyWatch
from slidestat.kafka.letter_record import LETTER_BYTES
from slidestat.kafka.read.listed_keys import KeyList
from slidestat.live.live_topology import LiveTopology
from slidestat.log import LOG_FORM, LogForm
from slidestat.options import CHECKPOINT_INTERVAL_S
from slidestat.repartition.elected_mover import ElectedMover


class WebSide(Protocol):
    """The address at which a worker answers, and the server there."""

    @property
    def canonical_url(self) -> str:
        """Return the URL by which the other workers of the group reach this one, and know it."""

    def server(self, app: BatchApp, topologies: dict[str, LiveTopology]) -> Web:
        """Return the server of these topologies, by name."""


@dataclass(frozen=True, kw_only=True)
class WorkerSettings:
    """The settings of a worker.

    topologies: they share a group and a source, which is consumed once.
    partitions: how many the source has.
    data_dir: a folder of this worker alone, with its tables and, unless in JSON, its log.
    web: where it answers questions.
    codecs: how each topology's emissions are written; JSON without any.
    extent: limits what is read and emitted.
    log: as text in `data_dir`, or as JSON on standard error.
    letter_bytes: what a letter has of a record, at most.
    key_watch: looks for keys that lie in several partitions.
    key_lists: the list of each topic of expected keys.
    checkpoint_interval_s: a state becomes durable at most once in as many seconds.
    rival: the error of another group that computes the same, and began when this one did.
    allow_loss: records that are gone before they were read are counted as lost; else they stop it.
    change_statistics: stored states may be of other statistics; else they stop it.
    registry: has the schemas of the source's records, if they take any.
    mover: moves the records of a source that is not partitioned by the key.
    first_starts: the names of the topologies that never took in a record, and stop the worker where
    all of their first records are refused.
    letter_commands: the command that shows a topology's dead letters, by its name.
    """

    topologies: Sequence[Declared]
    bootstrap_servers: str
    data_dir: Path
    partitions: int
    web: WebSide
    codecs: Sequence[EmissionWriter] | None = None
    extent: Extent = WHOLE
    log: LogForm = LOG_FORM
    letter_bytes: int = LETTER_BYTES
    key_watch: KeyWatch | None = None
    key_lists: Mapping[str, KeyList] = field(default_factory=dict)
    checkpoint_interval_s: float = CHECKPOINT_INTERVAL_S
    rival: Callable[[], SlidestatError | None] = lambda: None
    allow_loss: bool = False
    change_statistics: bool = False
    registry: Registry | None = None
    mover: ElectedMover | None = None
    first_starts: Collection[str] = ()
    letter_commands: Mapping[str, str] = field(default_factory=dict)

    @property
    def source(self) -> str:
        """Return the name of the topic that is read."""
        return self.topologies[0].events_topic
