"""Start a worker: check what it needs, make what is missing, and run it."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from slidestat.admin.first_start import prepare_first_start
from slidestat.admin.other_groups import OtherGroups
from slidestat.admin.worker_topics import check_sizes, prepare_topics, remarks_on_times
from slidestat.cli.display.topology import footprint_line
from slidestat.cli.options import as_typed
from slidestat.declare.declared import Declared, require_one_worker
from slidestat.declare.referee import Referee
from slidestat.declare.topology import Topology
from slidestat.engine.decoding.formats.source_schemas import Registry, SourceSchemas
from slidestat.engine.decoding.formats.translations import remarks_on_its_own, translation_of
from slidestat.engine.emissions.emission_codec import JsonCodec
from slidestat.engine.emissions.output_codec import emission_writer
from slidestat.engine.extent import WHOLE, Extent
from slidestat.engine.footprint import measure
from slidestat.faust.data_folder import data_folder, user_folders
from slidestat.faust.source.key_watch import KeyWatch
from slidestat.faust.worker.resources import limit_arenas
from slidestat.kafka.connection import require_broker
from slidestat.kafka.letter_record import LETTER_BYTES
from slidestat.kafka.read.listed_keys import KeyList
from slidestat.kafka.read.source_sample import check_source, unread_source
from slidestat.kernels.units import ship_with_the_package
from slidestat.log import LOG_FORM, LogForm, log_event
from slidestat.options import BOOTSTRAP_VARIABLE, CHECKPOINT_INTERVAL_S, DEFAULT_BOOTSTRAP, LOOPBACK
from slidestat.referee.referee_answers import RefereeAnswers
from slidestat.repartition.elected_mover import ElectedMover
from slidestat.repartition.moved_from import Move
from slidestat.web.address import announced, listen

if TYPE_CHECKING:
    from slidestat.faust.worker.settings import WorkerSettings


def start_worker(prepared: "AbstractContextManager[WorkerSettings]") -> None:
    """Run a worker that is `prepared` until SIGINT or SIGTERM."""
    with prepared as settings:
        from slidestat.faust.worker.run import run_worker

        run_worker(settings)


def require_startable(
    topology: Topology, bootstrap: str, data_dir: Path | None, registry: str
) -> None:
    """Raise SlidestatError for what of this machine and of the registry would refuse a worker, for
    whoever changes its state before it starts.
    """
    emission_writer(topology, registry)
    _schemas_of([topology], registry)
    cluster = str(require_broker(bootstrap).cluster_id)
    with data_folder(data_dir, topology.application_id, cluster):
        pass


@contextmanager
def prepared_worker(
    topologies: Sequence[Declared],
    bootstrap: str,
    data_dir: Path | None = None,
    registry: str = "",
    web_host: str = LOOPBACK,
    web_port: int | None = None,
    extent: Extent = WHOLE,
    log: LogForm = LOG_FORM,
    checkpoint_interval_s: float = CHECKPOINT_INTERVAL_S,
    *,
    allow_loss: bool = False,
    change_statistics: bool = False,
    anyway: bool = False,
    letter_commands: Mapping[str, str] | None = None,
) -> "Iterator[WorkerSettings]":
    """Yield the settings of a worker of `topologies`, which share a group and a source, with all
    that it needs on the brokers and on this machine.

    The source topic must exist; the topics that are written are made with its partition count.
    `data_dir` None takes a folder of the user's that no other worker holds; `registry` is the
    schema registry of what is in Avro; `web_port` None the first port that is free from 6066 on.
    With an `extent` that ends, the worker ends there by itself; with `allow_loss` it continues
    without records that are gone before they were read, and counts them; with `change_statistics`
    it takes states of other statistics, and new ones begin now; with `anyway` it runs whatever the
    source's records look like, and though all are refused. Each changed state becomes durable once
    in `checkpoint_interval_s` seconds; what is not yet is read again after a crash.
    `letter_commands` show a topology's dead letters, by its name. Raises SlidestatError for what
    the user can correct, such as a source that is not partitioned by the key.
    """
    require_one_worker(topologies)
    limit_arenas()
    # Missing codecs and schemas are reported before topics are made and kernels loaded.
    codecs = [emission_writer(topology, registry) for topology in topologies]
    schemas = _schemas_of(topologies, registry)
    _log_remarks(topologies)
    address = listen(web_host, web_port)
    source = _prepare(topologies, bootstrap, registry, extent, anyway=anyway)
    group_id, group = topologies[0].application_id, topologies[0].group_name
    with data_folder(data_dir, group_id, source.cluster_id) as folder:
        letter_bytes = _load_kernels(topologies, bootstrap)
        # Faust takes a second to import.
        from slidestat.faust.worker.settings import WorkerSettings
        from slidestat.web.answers.history import OutputHistory
        from slidestat.web.server import QueryServer

        log_event("answers", f"{group}: answers at {address.url}", group=group, url=address.url)
        moving = _moving(topologies, bootstrap, extent, allow_loss=allow_loss)
        with announced(folder, address, user_folders(group_id)), moving as mover:
            yield WorkerSettings(
                topologies=topologies,
                bootstrap_servers=bootstrap,
                data_dir=folder,
                partitions=source.partitions,
                web=QueryServer(address, OutputHistory(bootstrap, registry)),
                codecs=codecs,
                extent=extent,
                log=log,
                letter_bytes=letter_bytes,
                key_watch=source.key_watch,
                key_lists=source.key_lists,
                checkpoint_interval_s=checkpoint_interval_s,
                rival=OtherGroups(bootstrap, topologies).error,
                allow_loss=allow_loss,
                change_statistics=change_statistics,
                first_starts=source.first_starts,
                letter_commands=letter_commands or {},
                registry=schemas,
                mover=mover,
            )


def _counted(topologies: Sequence[Declared]) -> list[Topology]:
    """Return those whose events are counted: all but referees."""
    return [it.counted for it in topologies if it.counted is not None]


def letter_command(typed: str, bootstrap: str) -> str:
    """Return the command that shows a topology's dead letters, as it would be typed here."""
    usual = os.environ.get(BOOTSTRAP_VARIABLE) or DEFAULT_BOOTSTRAP
    at = [] if bootstrap == usual else ["--bootstrap", bootstrap]
    return as_typed("dlq", "show", typed, *at)


class _Source(NamedTuple):
    """The source as it was found; `first_starts` are the topologies that never ran, `key_watch` is
    None where keys may lie in several partitions, and `key_lists` has the keys that each topic of
    expected keys lists.
    """

    partitions: int
    first_starts: list[str]
    key_watch: KeyWatch | None
    cluster_id: str
    key_lists: dict[str, KeyList]


def _prepare(
    topologies: Sequence[Declared], bootstrap: str, registry: str, extent: Extent, *, anyway: bool
) -> _Source:
    """Check the source's records, unless `anyway`, and make the topics that are missing.

    Raises SlidestatError for a source that is not partitioned by the key.
    """
    first_starts = [
        topology.name
        for topology in topologies
        if topology.counted is not None
        and not anyway
        and prepare_first_start(bootstrap, topology.counted, _schemas_of(topologies, registry))
    ]
    topics = {it.expected_topic for it in _counted(topologies) if it.expected_topic}
    lists = {topic: KeyList(bootstrap, topic) for topic in sorted(topics)}
    for topology in topologies:
        partitions = prepare_topics(bootstrap, topology)
        for remark in remarks_on_times(bootstrap, topology):
            log_event(
                "event times limited",
                f"{topology.name}: {remark.message} {remark.advice}",
                topology=topology.name,
            )
    # Looks are taken while the worker reads: they have their own schemas.
    theirs = _schemas_of(topologies, registry)
    looks = [
        unread_source(bootstrap, topology, partitions, extent.end_offsets, theirs)
        for topology in _counted(topologies)
        if not topology.publishes_partitions and partitions > 1
    ]
    seen = max(map(check_source, looks), default=0)
    key_watch = KeyWatch(looks, seen) if looks else None
    cluster_id = str(require_broker(bootstrap).cluster_id)
    return _Source(partitions, first_starts, key_watch, cluster_id, lists)


def _load_kernels(topologies: Sequence[Declared], bootstrap: str) -> int:
    """Load every kernel, and return the largest size of a dead letter that fits all topologies.

    Better now than in the group, which takes a worker that is silent for too long for dead.
    """
    letter_bytes = LETTER_BYTES
    first = "" if ship_with_the_package() else "; the first time they are compiled, for a minute"
    for topology in topologies:
        log_event(
            "loading kernels", f"{topology.name}: loading kernels{first}", topology=topology.name
        )
        if isinstance(topology, Referee):
            if not topology.of.rankings:
                RefereeAnswers(topology, 0, JsonCodec()).warm()
        elif (counted := topology.counted) is not None:
            measured = measure(counted)
            line = footprint_line(counted, measured)
            log_event("memory of a key", line, topology=topology.name)
            letter_bytes = min(letter_bytes, check_sizes(bootstrap, counted, measured))
    return letter_bytes


@contextmanager
def _moving(
    topologies: Sequence[Declared], bootstrap: str, extent: Extent, *, allow_loss: bool
) -> Iterator[ElectedMover | None]:
    """Yield the mover of the source's records, None if none is needed; replays read moved ones."""
    moved = [it for it in _counted(topologies) if it.repartition]
    if not moved or extent.end_offsets is not None:
        yield None
        return
    mover = ElectedMover(Move(bootstrap, moved[0], allow_loss))
    try:
        yield mover
    finally:
        mover.stop()


def _log_remarks(topologies: Sequence[Declared]) -> None:
    for topology in _counted(topologies):
        for remark in remarks_on_its_own(topology):
            log_event(
                "schema not as written",
                f"source_schema of {topology.name}: {remark}",
                topology=topology.name,
                remark=remark,
            )


def _schemas_of(topologies: Sequence[Declared], registry: str) -> Registry | None:
    """Return the registry that has the schemas of the source's records, None if they need none."""
    in_binary = [it for it in _counted(topologies) if it.reads_binary]
    for topology in in_binary:
        translation_of(topology, SourceSchemas())  # Raises the error if any.
    if not any(topology.takes_registry for topology in in_binary):
        return None
    from slidestat.kafka.schema_registry import SchemaRegistry

    return SchemaRegistry(registry)
