"""The settings of the local broker and of its JVM, each with its reason."""

import json
import random
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from slidestat.errors import SlidestatError

# Free loopback ports for a server that is still to be started.

HOST = "127.0.0.1"

# Below what Linux (32768) and macOS (49152) hand out to outgoing connections: a client that
# retries a stopped broker's port could otherwise be given that very port and connect to itself.
_LOWEST, _HIGHEST = 15_000, 32_000
_TRIES = 200


def is_free(port: int) -> bool:
    """Return whether a server could listen on this loopback port now."""
    with socket.socket() as probe:
        # as the JVM does, or connections that ended a moment ago would count as a server
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def pick_free_ports(count: int) -> list[int]:
    """Return `count` different ports that are free now; random, so that two callers hardly clash.

    Another process may still take one before it is used: a caller tries again then.
    Raises SlidestatError when none can be had.
    """
    candidates = random.sample(range(_LOWEST, _HIGHEST), _TRIES)
    free = [port for port, _ in zip(filter(is_free, candidates), range(count), strict=False)]
    if len(free) < count:
        raise SlidestatError(
            f"No free port between {_LOWEST} and {_HIGHEST} was found on {HOST}.",
            "End some of the servers on this machine, or name a free port.",
        )
    return free


SETTINGS = {
    # one node that is both broker and controller
    "process.roles": "broker,controller",
    "node.id": 1,
    "controller.listener.names": "CONTROLLER",
    # a misspelt topic is an error, and partitions are chosen by the client that creates one
    "auto.create.topics.enable": "false",
    "num.partitions": 1,
    # Retention, and the timestamps that are taken, are Kafka's defaults, as users will meet them.
    # only a closed segment is compacted, and none is closed by age: so by a modest size
    "log.segment.bytes": 128 * 1024 * 1024,
    # internal topics: one replica is all there is, and few partitions are created quickly
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 4,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "share.coordinator.state.topic.num.partitions": 4,
    # a lone consumer need not wait 3 s for company
    "group.initial.rebalance.delay.ms": 0,
    # after a crash the controller, by default, takes no new registration for 9 s
    "broker.session.timeout.ms": 3000,
    "broker.heartbeat.interval.ms": 500,
    # An idle controller appends a record each half a second, for others that follow it: there are
    # none, and it is half of what an idle broker computes.
    "metadata.max.idle.interval.ms": 0,
    # a small machine, shared with the workers
    "num.network.threads": 2,
    "num.io.threads": 4,
    "background.threads": 2,
    "log.cleaner.threads": 1,
    "log.cleaner.dedupe.buffer.size": 16 * 1024 * 1024,
}

# Measured on two cores: the serial collector and the first compiler alone start the broker in
# 2.2 s instead of 3.5 s (G1, both compilers) for half the CPU time, and cost no throughput.
JVM_FLAGS = (
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:+ExitOnOutOfMemoryError",
    "-XX:-UsePerfData",  # a killed JVM would leave that file behind
    "-Dorg.apache.logging.log4j.level=INFO",  # to standard output, which is the log file
)


def server_properties(
    broker_port: int,
    controller_port: int,
    log_dir: Path,
    secured_ports: Mapping[str, int],
    secured_settings: Mapping[str, str],
) -> str:
    """Return the text of server.properties for a broker on these loopback ports.

    `secured_ports` are those of further listeners, by security protocol; `secured_settings` are
    what those demand of a client.
    """
    listeners = ",".join(
        f"{protocol}://{HOST}:{port}"
        for protocol, port in {"PLAINTEXT": broker_port, **secured_ports}.items()
    )
    settings = {
        **SETTINGS,
        "listeners": f"{listeners},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": listeners,
        # given one further protocol, Kafka no longer assumes the controller's
        "listener.security.protocol.map": ",".join(
            f"{name}:{protocol}"
            for name, protocol in {
                "CONTROLLER": "PLAINTEXT",
                "PLAINTEXT": "PLAINTEXT",
                **dict(zip(secured_ports, secured_ports, strict=True)),
            }.items()
        ),
        "controller.quorum.voters": f"{SETTINGS['node.id']}@{HOST}:{controller_port}",
        # JSON's escapes are also those of a properties file
        "log.dirs": json.dumps(str(log_dir))[1:-1],
        # last: the advertised address may be another than the one listened at
        **secured_settings,
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def java_command(
    java: Path, classpath: Sequence[Path], scratch: Path, main: Sequence[str | Path]
) -> list[str | Path]:
    """Return the command that runs `main`, a Java class and its arguments, with `scratch` as the
    folder for native code.
    """
    joined = ":".join(map(str, classpath))
    return [java, *JVM_FLAGS, f"-Djava.io.tmpdir={scratch}", "-cp", joined, *main]
