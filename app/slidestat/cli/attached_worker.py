"""Topologies in a Faust application of the user's own: `faust -A app worker` runs them, and the
application's agents read their emissions.

A worker replaces so much of Faust (batches, offsets, tables, restoring) that it is an application
of its own, with a group and offsets of its own. It runs within the user's, as one of its services:
it starts before the user's consumer does, and ends after it.
"""

from contextlib import ExitStack
from pathlib import Path
from weakref import WeakSet

import faust
from faust.serializers.codecs import Codec
from faust.transport.drivers.aiokafka import server_list
from faust.types import CodecArg, TopicT
from mode import Service

from slidestat.cli.start_worker import prepared_worker
from slidestat.declare.declared import Declared
from slidestat.declare.referee import Referee
from slidestat.declare.topology import Topology
from slidestat.engine.emissions.output_codec import AnyFormat
from slidestat.errors import SlidestatError, shown
from slidestat.faust.worker.group_member import GroupMember
from slidestat.faust.worker.resources import raise_open_files
from slidestat.faust.worker.run import raise_for_the_user
from slidestat.log import log_event, logging_to_stderr
from slidestat.schemas.emission import Emission

# Any free one: the user's application may have its own web side where ours would be.
_ANY_PORT = 0
_KAFKA_PORT = 9092

# Applications with a topology that logs for all of theirs: the first one, which stops last.
_logging: WeakSet[faust.App] = WeakSet()


def attach(
    app: faust.App, topology: Declared, *, data_dir: str | Path | None = None, registry: str = ""
) -> TopicT:
    """Have the workers of `app` compute a topology, and return the topic of its output for agents
    of `app`. They read emissions; dictionaries if it writes rows in JSON, bytes if it writes rows
    in another format.

    The brokers are those of `app`; their security is read from the environment, as by `slidestat
    run`. Without `data_dir`, tables are in a folder of the user's that no other worker holds.
    `registry` is the URL of the schema registry, for what is in Avro. Raises SlidestatError if one
    of them is no application or no topology.
    """
    if not isinstance(app, faust.App) or not isinstance(topology, Topology | Referee):
        raise SlidestatError(
            f"attach was given {shown(app)} and {shown(topology)}.",
            "Give a faust.App and a Topology, in this order; of a file with one, what"
            ' slidestat.load_topology("FILE") returns.',
        )
    folder = None if data_dir is None else Path(data_dir)
    worker = _AttachedWorker(app, topology, folder, registry, logs=app not in _logging)
    app.add_dependency(worker)
    _logging.add(app)
    codec: CodecArg = _Emissions(registry=registry)
    if topology.counted is not None and topology.counted.writes_rows:
        codec = "json" if topology.output_format == "json" else "raw"
    return app.topic(topology.output_topic, key_serializer="raw", value_serializer=codec)


class _Emissions(Codec):
    """Faust's codec of emissions, which are only read."""

    def __init__(self, children: tuple[Codec, ...] | None = None, registry: str = "") -> None:
        super().__init__(children, registry=registry)
        self._format = AnyFormat(registry)

    def _loads(self, s: bytes) -> Emission:
        return self._format.decode(s)


class _AttachedWorker(Service):
    """A worker as a service of the user's application."""

    def __init__(
        self,
        app: faust.App,
        topology: Declared,
        data_dir: Path | None,
        registry: str,
        *,
        logs: bool,
    ) -> None:
        super().__init__()
        self._app = app
        self._topology = topology
        self._data_dir = data_dir
        self._registry = registry
        self._logs = logs
        self._prepared = ExitStack()
        self._member: GroupMember | None = None

    async def on_start(self) -> None:
        """Prepare the worker, then start it, unless the application only sends."""
        if self._app.producer_only or self._app.client_only:
            return
        if self._logs:
            self._prepared.enter_context(logging_to_stderr())
        raise_open_files()
        # Nothing else of the application runs yet that this would hold up.
        try:
            settings = self._prepared.enter_context(
                prepared_worker(
                    [self._topology],
                    self._bootstrap(),
                    self._data_dir,
                    self._registry,
                    web_port=_ANY_PORT,
                )
            )
        except SlidestatError as error:
            _tell(error)
            self._prepared.close()
            raise SystemExit(error.exit_code) from error
        self._data_dir = settings.data_dir
        self._member = GroupMember(settings)
        self._prepared.callback(self._member.close)
        await self.add_runtime_dependency(self._member.app)

    async def on_shutdown(self) -> None:
        """Let go of what was prepared; print what ended the worker, if the user can correct it."""
        if self._member is not None:
            app = self._member.app
            reason = app.topics_error() or app.crash_reason
            if reason is not None and self._data_dir is not None:
                try:
                    raise_for_the_user(reason, self._data_dir)
                except SlidestatError as error:
                    _tell(error)
                except BaseException:  # noqa: BLE001, S110 - Faust has logged it
                    pass
        self._prepared.close()

    def _bootstrap(self) -> str:
        # The form of Faust: an address of IPv6 in brackets; one without a host is this machine.
        return ",".join(server_list(self._app.conf.broker, _KAFKA_PORT))


def _tell(error: SlidestatError) -> None:
    log_event("stopped", f"error: {error.message}\nwhat to do: {error.advice}")
