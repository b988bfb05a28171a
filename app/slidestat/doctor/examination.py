"""All checks, in the order in which a person would look: the machine, topics, sources, brokers."""

import os
import platform
import shutil
import sys
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from importlib.metadata import PackageNotFoundError, version

from aiokafka.codec import has_lz4, has_snappy, has_zstd
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it re-exports without saying so
    ClusterMetadata,
)

from slidestat.admin.first_start import look_at_source, stored_before
from slidestat.admin.other_groups import last_checkpoints
from slidestat.admin.worker_topics import remarks_on_times
from slidestat.declare.declared import Declared
from slidestat.declare.topology import Topology
from slidestat.doctor.finding import Finding, Verdict
from slidestat.doctor.permissions import cluster_permission, creation_permission, worker_permissions
from slidestat.engine.checkpoints.checkpoint import Checkpoint, decode_checkpoint, stored_mark
from slidestat.errors import SlidestatError
from slidestat.extras import module_of_extra
from slidestat.faust.data_folder import user_folders
from slidestat.faust.partitions.read_order import LostRange, refusal
from slidestat.faust.source.topic_watch import require_same_source
from slidestat.kafka import settings
from slidestat.kafka.connection import require_broker
from slidestat.kafka.read.same_log import first_difference
from slidestat.kafka.read.scan import errors_of, reading
from slidestat.kafka.settings import broker_security
from slidestat.kafka.topic_identity import topic_id
from slidestat.local.java import find_java
from slidestat.options import (
    BOOTSTRAP_VARIABLE,
    REGISTRY_VARIABLE,
    TOKEN_FILE_VARIABLE,
    TOKEN_VARIABLE,
    VIEW_TOKEN_FILE_VARIABLE,
    VIEW_TOKEN_VARIABLE,
)
from slidestat.spark.spark_java import find_spark_java
from slidestat.text import counted, human_duration
from slidestat.user_files import CACHE_VARIABLE, cache_folder

_PACKAGES = ("faust-streaming", "aiokafka", "confluent-kafka", "rocksdict", "numba", "pyarrow")
# aiokafka finds out at the first batch that it cannot unpack it.
_CODECS = {"lz4": has_lz4, "snappy": has_snappy, "zstd": has_zstd}
_LEAST_DISK = 2 * 10**9


def python() -> Finding:
    """Return the finding about the interpreter, and the packages that do the work."""
    try:
        found = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    except PackageNotFoundError as error:
        return Finding(
            "python",
            Verdict.BAD,
            f"{error.name} is not installed",
            "Install slidestat again, with its dependencies.",
        )
    return Finding("python", Verdict.GOOD, f"{platform.python_version()}; {found}")


def codecs() -> Finding:
    """Return the finding about the codecs with which a worker unpacks what producers compress."""
    missing = [codec for codec, is_there in _CODECS.items() if not is_there()]
    if missing:
        return Finding(
            "codecs",
            Verdict.BAD,
            f"records packed with {', '.join(missing)} cannot be read",
            'Install them: pip install "aiokafka[lz4,snappy,zstd]".',
        )
    return Finding("codecs", Verdict.GOOD, f"gzip, {', '.join(_CODECS)}")


def java() -> Iterator[Finding]:
    """Yield the findings about a Java for the local broker, and one for the Spark jobs."""
    for use, find in (("the local broker", find_java), ("the Spark jobs", find_spark_java)):
        try:
            found = find()
            text = f"Java {found.version} from {found.source}"
            yield Finding(f"java for {use}", Verdict.GOOD, text)
        except SlidestatError as error:
            yield Finding(f"java for {use}", Verdict.MISSING, error.message, error.advice)


def kernels() -> Finding:
    """Return whether compiled kernels can be kept, if they did not come with the package: else each
    worker compiles them again, for minutes.
    """
    from slidestat.kernels import units

    if units.ship_with_the_package():
        return Finding("kernels", Verdict.GOOD, "machine code came with the package")
    folder = units.cache_folder()
    try:
        units.try_to_write()
    except OSError as error:
        found = f"{folder} cannot be written ({error.strerror}): each start compiles for minutes"
        advice = f"Name a folder that this user may write in {CACHE_VARIABLE} or NUMBA_CACHE_DIR."
        return Finding("kernels", Verdict.BAD, found, advice)
    return Finding("kernels", Verdict.GOOD, f"compiled ones are kept in {folder}")


def disk() -> Iterator[Finding]:
    """Yield the findings about the disk space for tables, and for downloads."""
    for check, folder, elsewhere in (
        ("tables", user_folders(""), "Give workers a --data-dir that this user may write."),
        ("downloads", cache_folder(), f"Name one that this user may write in {CACHE_VARIABLE}."),
    ):
        place = folder
        while not os.path.exists(place):  # noqa: PTH110  pathlib's raises where a folder is closed
            place = place.parent
        if not (place.is_dir() and os.access(place, os.W_OK | os.X_OK)):
            found = f"{folder} cannot be written by this user"
            yield Finding(check, Verdict.MISSING, found, elsewhere)
            continue
        free = shutil.disk_usage(place).free
        text = f"{free / 1e9:,.1f} GB free at {folder}"
        if free < _LEAST_DISK:
            yield Finding(
                check, Verdict.BAD, text, "Make room, or give workers a --data-dir elsewhere."
            )
        else:
            yield Finding(check, Verdict.GOOD, text)


def supported() -> Finding | None:
    """Return a warning on platforms on which slidestat was never run, None on the others."""
    if sys.platform.startswith("linux") or sys.platform == "darwin":
        return None
    return Finding(
        "system", Verdict.BAD, platform.platform(), "Run it on Linux or macOS, or in a container."
    )


# Whether topics keep what is written to them.


def limited_times(bootstrap: str, topology: Declared) -> Iterator[Finding]:
    """Yield a finding about each setting that limits the event times of what is written."""
    check = "event times"
    try:
        for remark in remarks_on_times(bootstrap, topology):
            yield Finding(check, Verdict.MISSING, remark.message, remark.advice)
    except SlidestatError as error:
        yield Finding(check, Verdict.MISSING, error.message, error.advice)


# Whether the source still has what a topology's workers have yet to read, and whether its records
# have the names that are declared.

_CHECK = "source records"
_TIMEOUT_S = 10.0


def unread_records(
    bootstrap: str, topology: Declared, cluster: ClusterMetadata
) -> Iterator[Finding]:
    """Yield a finding about unread records, once a state is stored: bad if workers would stop."""
    source, changelog = topology.events_topic, topology.changelog_topic
    if source not in cluster.topics or changelog not in cluster.topics:
        return
    try:
        count = len(cluster.topics[changelog].partitions)
        stored = last_checkpoints(bootstrap, changelog, count)
        checkpoints = {
            partition: decode_checkpoint(value, topology.state_meaning)
            for partition, value in stored.items()
        }
        if checkpoints:
            _require_all(bootstrap, topology, checkpoints)
            _require_same_log(bootstrap, topology, stored)
            yield Finding(_CHECK, Verdict.GOOD, f"{source} has all that is yet to be read")
    except SlidestatError as error:
        yield Finding(_CHECK, Verdict.BAD, error.message, error.advice)


def declared_names(
    bootstrap: str, topology: Topology, cluster: ClusterMetadata, registry: str
) -> Iterator[Finding]:
    """Find out whether records of the source have the fields that are declared; once a record was
    taken in, nothing that is missing in a sample is bad.
    """
    if not topology.sources_among(cluster.topics):
        return
    check = "source fields"
    try:
        schemas = None
        if topology.takes_registry:
            needed = module_of_extra("slidestat.kafka.schema_registry", "A schema registry", "avro")
            schemas = needed.SchemaRegistry(registry)
        before = stored_before(bootstrap, topology, cluster)
        judgement = look_at_source(bootstrap, topology, cluster, schemas)
    except SlidestatError as error:
        yield Finding(check, Verdict.BAD, error.message, error.advice)
        return
    if judgement is None:
        found = f"{topology.sources_text} has no record that could be looked at"
        yield Finding(check, Verdict.MISSING, found)
        return
    if (slip := judgement.error()) is not None:
        verdict = Verdict.MISSING if before is None else Verdict.BAD
        yield Finding(check, verdict, slip.message, slip.advice)
        return
    found = f"{judgement.records:,} records of {judgement.topology.sources_text} were looked at"
    for note in judgement.notes:
        yield Finding(check, Verdict.MISSING, f"{found}: {note}")
    if not judgement.notes:
        yield Finding(check, Verdict.GOOD, f"{found}: they have what is declared")


def _require_all(bootstrap: str, topology: Declared, checkpoints: dict[int, Checkpoint]) -> None:
    source, found = topology.events_topic, topic_id(bootstrap, topology.events_topic)
    with reading(bootstrap, source) as consumer:
        for partition, checkpoint in checkpoints.items():
            require_same_source(source, checkpoint.topic_id, found, topology.name)
            place = TopicPartition(source, partition)
            first, _ = consumer.get_watermark_offsets(place, timeout=_TIMEOUT_S)
            if first > checkpoint.next_offset:
                lost = LostRange(source, partition, checkpoint.next_offset, first)
                raise refusal(lost, topology)


def _require_same_log(bootstrap: str, topology: Declared, stored: Mapping[int, bytes]) -> None:
    source = topology.events_topic
    for partition, checkpoint in stored.items():
        mark = stored_mark(checkpoint)
        if mark is None:
            continue
        with errors_of(source):
            first = first_difference(bootstrap, source, partition, mark)
        if first is not None:
            lost = LostRange(source, partition, first, mark.offset + 1, is_replaced=True)
            raise refusal(lost, topology)


# The brokers: whether they answer, let this user in, and do what workers ask of them.


def brokers(bootstrap: str, topology: Declared | None, registry: str) -> Iterator[Finding]:
    """Yield the findings about the connection, then about the permissions, those of a worker of
    `topology` if there is one.
    """
    try:
        security = broker_security()
        found = security.protocol
        if security.user:
            found += f", user {security.user}, {security.mechanism}"
        elif security.region:
            found += f", {security.mechanism} in {security.region}"
        yield Finding("security", Verdict.GOOD, found)
        cluster = require_broker(bootstrap)
    except SlidestatError as error:
        yield Finding("broker", Verdict.BAD, error.message, error.advice)
        return
    yield Finding(
        "broker",
        Verdict.GOOD,
        f"{bootstrap}: cluster {cluster.cluster_id}, {counted(len(cluster.brokers), 'broker')},"
        f" {len(cluster.topics)} topics",
    )
    yield cluster_permission(bootstrap)
    if topology is None:
        yield creation_permission(bootstrap)
    else:
        yield from worker_permissions(bootstrap, topology)
        yield from unread_records(bootstrap, topology, cluster)
        yield from limited_times(bootstrap, topology)
        if topology.counted is not None:
            yield from declared_names(bootstrap, topology.counted, cluster, registry)


# Variables of the environment that nothing reads, and that are spelled nearly as one that is read.
#
# Programs of others have variables that begin with KAFKA_, too: one of those is reported only where
# it is a letter or two away.

_READ = (
    BOOTSTRAP_VARIABLE,
    REGISTRY_VARIABLE,
    TOKEN_VARIABLE,
    TOKEN_FILE_VARIABLE,
    VIEW_TOKEN_VARIABLE,
    VIEW_TOKEN_FILE_VARIABLE,
    CACHE_VARIABLE,
    settings.PROTOCOL,
    settings.MECHANISM,
    settings.USERNAME,
    settings.PASSWORD,
    f"{settings.PASSWORD}_FILE",
    settings.CA_FILE,
    settings.CERTIFICATE_FILE,
    settings.KEY_FILE,
    settings.KEY_PASSWORD,
    f"{settings.KEY_PASSWORD}_FILE",
)
# The share of letters that two names have in common, in order: all but one of 18, or so.
_ALIKE = 0.92


def unread_variables(environment: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """Yield a finding for each variable that seems to be one with a slip, without its value."""
    for name in environment:
        near = get_close_matches(name.upper(), _READ, n=1, cutoff=_ALIKE)
        if near and name not in _READ:
            found, advice = f"{name} is set, and nothing reads it", f"Did you mean {near[0]}?"
            yield Finding("environment", Verdict.MISSING, found, advice)


# Lengths that can be declared together, and are seldom meant so.


def unlikely_lengths(topology: Topology) -> Iterator[Finding]:
    """Yield a finding where windows do not meet: events between them are in no figure."""
    if topology.windows_of_events or topology.is_sequence:
        return
    shortest, every = min(topology.window_lengths), topology.every_ms
    if every > shortest:
        yield Finding(
            "lengths",
            Verdict.MISSING,
            f"every is {human_duration(every)}, and a window {human_duration(shortest)}: events"
            " between two of its windows are in none",
            "If all events should be in it, emit more often, or lengthen the window.",
        )


def examine(
    bootstrap: str, topology: Declared | None = None, registry: str = ""
) -> Iterator[Finding]:
    """Yield each check's findings, one after the other; the broker's last, as it may take its time.

    `registry` is the address of the schema registry of what is in Avro.
    """
    if (system := supported()) is not None:
        yield system
    yield python()
    yield codecs()
    yield kernels()
    yield from disk()
    yield from java()
    yield from unread_variables()
    if topology is not None and topology.counted is not None:
        yield from unlikely_lengths(topology.counted)
    yield from brokers(bootstrap, topology, registry)


def line_of(finding: Finding) -> str:
    """Return a finding for a person, with the advice below it."""
    mark = {Verdict.GOOD: "good", Verdict.MISSING: "----", Verdict.BAD: "BAD "}[finding.verdict]
    line = f"{mark}  {finding.check}: {finding.found}"
    return f"{line}\n      what to do: {finding.advice}" if finding.advice else line
