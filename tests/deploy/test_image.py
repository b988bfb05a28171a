"""The image: built by the Dockerfile's own steps, and run as Kubernetes would, without a registry.

What stands in for python:slim is a root file system of Debian packages, with Debian's Python. All
other steps are those that users have. Podman works without a daemon; containers have no network but
the loopback interface, unless they ask a broker of the tests.
"""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

import pytest

from slidestat.local.jars import LOCK_FILE, fetched_jars
from tests.broker.conftest import BODY, make_stage  # noqa: F401 - a fixture
from tests.broker.workers import Stage, Worker, events, produce, wait_until
from tests.demo.test_demo import VERDICT

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(5_400),
    pytest.mark.skipif("MAKE_IMAGE" not in os.environ, reason="make image builds the image"),
]

ROOT = Path(__file__).parents[2]
DEBIAN = "bookworm"
TAG = "localhost/slidestat:tested"
USER, HOME = 10001, "/var/lib/slidestat"
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
# Kernels are compiled in it: minutes on an idle machine.
BUILD_S = 3_600
# All that is restricted in Kubernetes' strictest standard.
RESTRICTED = ["--read-only", "--cap-drop=all", "--security-opt=no-new-privileges"]


class Image:
    """An image in a storage of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # Of its runtimes this one takes cgroups as they come.
        storage = f"--root={folder / 'storage'}", f"--runroot={folder / 'run'}"
        self._podman = ["podman", *storage, "--runtime=runc", "--cgroup-manager=cgroupfs"]
        # Podman's own are higher than some machines allow.
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._limits = [f"--ulimit=nofile={soft}:{hard}", "--ulimit=nproc=4096:4096"]

    def podman(
        self, *arguments: object, code: int = 0, timeout: float = 300
    ) -> "subprocess.CompletedProcess[str]":
        """Run Podman; AssertionError, with all that it said, unless it ends with `code`."""
        done = subprocess.run(
            [*self._podman, *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )
        assert done.returncode == code, f"{arguments}: {done.stdout}{done.stderr}"
        return done

    def build(self) -> None:
        """Build the image."""
        base, system = "localhost/base:tested", self.folder / "base.tar"
        packages = "python3,python3-pip,python-is-python3,ca-certificates,tzdata"
        # Debian's pip leaves its own Python to Debian; here that is the image's.
        hook = '--customize-hook=rm -f "$1"/usr/lib/python3*/EXTERNALLY-MANAGED'
        make = ["mmdebstrap", "--variant=minbase", f"--include={packages}", hook]
        made = subprocess.run(
            [*make, DEBIAN, system], capture_output=True, text=True, check=False, timeout=BUILD_S
        )
        assert made.returncode == 0, made.stderr
        self.podman("import", system, base)
        system.unlink()
        # The packages come from where this machine's pip has them.
        settings = self.folder / "pip.conf"
        settings.write_text("\n".join(["[global]", *_pip_settings()]), encoding="utf-8")
        mounted = f"{CERTIFICATES}:{CERTIFICATES}:ro", f"{settings}:/etc/pip.conf:ro"
        volumes = [f"--volume={it}" for it in mounted]
        chosen = [f"--from={base}", f"--tag={TAG}", *volumes]
        self.podman("build", "--isolation=chroot", "--network=host", *chosen, ROOT, timeout=BUILD_S)

    def arguments(self, *options: object) -> list[str]:
        """Return the arguments that run a container with these options, all else read-only."""
        return [*self._podman, "run", "--rm", *self._limits, *RESTRICTED, *map(str, options), TAG]

    def run(
        self, *command: object, options: tuple[object, ...] = (), timeout: float = 300
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command in a container to its end, alone with itself."""
        arguments = self.arguments("--network=none", *options)[len(self._podman) :]
        return self.podman(*arguments, *command, timeout=timeout)

    def volume(self, name: str, owner: int = USER, group: int = USER) -> Path:
        """Return a folder as a cluster makes it for a container."""
        folder = self.folder / name
        folder.mkdir(mode=0o775)
        os.chown(folder, owner, group)
        return folder


def _pip_settings() -> Iterator[str]:
    """Yield which indexes this machine's pip asks, by its files and its environment."""
    listed = [sys.executable, "-m", "pip", "config", "list"]
    told = subprocess.run(listed, capture_output=True, text=True, check=True).stdout
    for line in told.splitlines():
        name, _, text = line.rpartition(".")[2].partition("=")
        if name in ("index-url", "extra-index-url", "trusted-host"):
            yield f"{name} = {text.strip(chr(39))}"
    yield f"cert = {CERTIFICATES}"


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    """The image, which goes with its storage."""
    folder = tmp_path_factory.mktemp("image")
    # A user of a container has to get there.
    for parent in (folder, *folder.parents[:2]):
        parent.chmod(0o755)
    built = Image(folder)
    try:
        built.build()
        yield built
    finally:
        built.podman("system", "reset", "--force")
        shutil.rmtree(folder, ignore_errors=True)


def test_the_image_is_what_a_strict_cluster_takes(image: Image) -> None:
    """Its user is a number above 0, root's group may write its folder, and nothing is left in what
    can be written.
    """
    (told,) = json.loads(image.podman("image", "inspect", TAG).stdout)
    config = told["Config"]
    assert int(config["User"]) == USER
    assert config["WorkingDir"] == HOME
    assert config["Entrypoint"] == ["slidestat"]
    assert f"HOME={HOME}" in config["Env"]
    shell = ("--entrypoint=/bin/sh",)
    found = image.run("-c", "stat -c %a:%u:%g . && ls -A . /tmp", options=shell).stdout
    assert found.split() == [f"775:{USER}:0", ".:", "/tmp:"]  # noqa: S108


def test_the_demo_runs_inside(image: Image) -> None:
    """With all that is read-only, no right, and no network: nothing is fetched, and no kernel is
    compiled. Each of its figures is within its bounds.
    """
    volume = image.volume("demo")
    jars = volume / ".cache" / "slidestat" / LOCK_FILE.stem
    jars.mkdir(parents=True)
    for jar in fetched_jars(LOCK_FILE, LOCK_FILE.stem):
        shutil.copy(jar, jars)
    for path in volume.rglob("*"):
        os.chown(path, USER, USER)
    done = image.run("demo", options=(f"--volume={volume}:{HOME}",), timeout=1_200)
    (verdict,) = filter(None, map(VERDICT.fullmatch, done.stdout.splitlines()))
    assert int(verdict["figures"].replace(",", "")) > 50_000
    assert 0 < float(verdict["worst"]) <= float(verdict["promised"]) == 1.0
    assert "ompiling" not in done.stdout + done.stderr


def test_what_needs_no_folder_runs_without_one(image: Image) -> None:
    """Also for a user without a name, as OpenShift makes up, and where not even /tmp is writable.
    Time zones are the package's own.
    """
    options = "--user=1000660000:0", "--read-only-tmpfs=false"
    shown = image.run("topology", "show", "flights", options=options)
    assert shown.stdout.startswith("topology    flights")
    assert shown.stderr == ""
    zone = "import zoneinfo; print(zoneinfo.ZoneInfo('Europe/Berlin'))"
    python = "--entrypoint=python", "--env=PYTHONTZPATH="
    assert image.run("-c", zone, options=(*options, *python)).stdout == "Europe/Berlin\n"


def test_whatever_a_worker_may_be_asked_for_is_there(image: Image) -> None:
    """Avro and Protobuf, brokers of Amazon MSK, collectors of OpenTelemetry: nothing is installed
    into an image that only reads.
    """
    needed = "fastavro, confluent_kafka.schema_registry.avro, grpc_tools.protoc"
    needed += ", aws_msk_iam_sasl_signer, opentelemetry.proto.metrics.v1.metrics_pb2"
    image.run("-c", f"import {needed}", options=("--entrypoint=python",))


@pytest.mark.parametrize("user", [f"{USER}:{USER}", "1000660000:0"])
def test_a_worker_is_the_first_process(
    image: Image,
    make_stage: Callable[..., Stage],  # noqa: F811
    tmp_path: Path,
    user: str,
) -> None:
    """It counts as the checkout's would; it is told by a signal to end, as by any engine that stops
    it, and commits all it has.
    """
    stage = make_stage()
    produce(stage.bootstrap, stage.topology.source, events(3_000))
    owner, group = map(int, user.split(":"))
    stage.data_dir().mkdir(parents=True)
    for path in (tmp_path, *tmp_path.rglob("*")):
        os.chown(path, owner, group)
    options = "--network=host", f"--user={user}", f"--volume={tmp_path}:{tmp_path}"

    def start(arguments: Sequence[str], output: IO[bytes]) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [*image.arguments(*options), *arguments], stdout=output, stderr=output
        )

    with Worker(stage.file, stage.data_dir(), stage.bootstrap, start=start) as worker:
        worker.await_ready()
        stage.await_settled([worker])
        worker.stop()
    stage.check()
    assert "ompiling" not in worker.said()
    assert "stopping" in worker.said()


def test_a_worker_that_has_hardly_begun_ends_as_well(image: Image) -> None:
    """The first process of a container ignores each signal that it has no handler for, and would
    run on until it is killed.
    """
    # Nobody answers there: it would end by itself after many seconds, with another code.
    arguments = [*image.arguments("--network=none"), "run", "flights", "--bootstrap", "127.0.0.1:1"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(arguments, text=True, **pipes) as process:
        try:
            # One that comes before there is a container ends Podman alone; one that comes before
            # there is Python is lost.
            wait_until(lambda: image.podman("ps", "--quiet").stdout, "it runs", 60)
            while process.poll() is None:
                process.send_signal(signal.SIGTERM)
                time.sleep(0.5)
            said, _ = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 128 + signal.SIGTERM, said
    assert "Traceback" not in said
