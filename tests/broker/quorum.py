"""A Kafka cluster whose controllers are not its broker: three of them, of which any one may die."""

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from secrets import token_urlsafe

from slidestat.local.broker import LocalBroker, SupervisedProcess
from slidestat.local.jars import kafka_classpath
from slidestat.local.java import find_java
from slidestat.local.settings import HOST, java_command, pick_free_ports

CONTROLLERS = (1, 2, 3)
_BROKER = 10
_END_S = 60.0


class Controller:
    """One controller of a quorum: a JVM that can be killed and started again."""

    def __init__(self, number: int, folder: Path, port: int, voters: str, cluster: str) -> None:
        self._folder = folder
        self._folder.mkdir(parents=True)
        self._process = SupervisedProcess()
        settings = {
            "process.roles": "controller",
            "node.id": number,
            "controller.quorum.voters": voters,
            "controller.listener.names": "CONTROLLER",
            "listeners": f"CONTROLLER://{HOST}:{port}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
            "log.dirs": folder / "kafka",
        }
        self._settings = folder / "server.properties"
        self._settings.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        self._run("kafka.tools.StorageTool", "format", "-t", cluster, "-c", self._settings)
        assert self._process.wait(_END_S) == 0, self.log.read_text()

    @property
    def log(self) -> Path:
        """What the JVM says."""
        return self._folder / "controller.log"

    def start(self) -> None:
        """Start it, without waiting for what it does."""
        self._run("kafka.Kafka", self._settings)

    def kill(self) -> None:
        """End it as a crash would; its data stays."""
        self._process.send_signal(signal.SIGKILL)
        assert self._process.wait(_END_S) is not None

    def close(self) -> None:
        """End it for good."""
        self._process.close()

    def _run(self, *main: str | Path) -> None:
        command = java_command(find_java().executable, kafka_classpath(), self._folder, main)
        self._process.run(command, self.log)


@contextmanager
def broker_of_a_quorum(folder: Path) -> Iterator[tuple[LocalBroker, list[Controller]]]:
    """Run three controllers and a broker that is none; 1 GB of memory, some 10 s to start."""
    broker_port, *ports = pick_free_ports(1 + len(CONTROLLERS))
    voters = ",".join(
        f"{number}@{HOST}:{port}" for number, port in zip(CONTROLLERS, ports, strict=True)
    )
    cluster = "K" + token_urlsafe(16)[1:]
    with ExitStack() as cleanup:
        controllers = []
        for number, port in zip(CONTROLLERS, ports, strict=True):
            controller = Controller(number, folder / str(number), port, voters, cluster)
            cleanup.callback(controller.close)
            controller.start()
            controllers.append(controller)
        data = folder / "broker"
        (data / "kafka").mkdir(parents=True)
        # The broker joins the cluster that its storage names.
        (data / "kafka" / "meta.properties").write_text(
            f"version=1\ncluster.id={cluster}\nnode.id={_BROKER}\n"
        )
        alone = {
            "process.roles": "broker",
            "node.id": str(_BROKER),
            "controller.quorum.voters": voters,
            "listeners": f"PLAINTEXT://{HOST}:{broker_port}",
        }
        with LocalBroker(data, broker_port, secured_settings=alone) as broker:
            yield broker, controllers
