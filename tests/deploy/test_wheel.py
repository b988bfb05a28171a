"""The wheel: what lies in it, and that each extra, alone, runs what it is for."""

import json
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from email import message_from_string
from email.message import Message
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from slidestat.kernels.units import packages
from slidestat.local.jars import LOCK_FILE, fetched_jars
from slidestat.spark.jars import release_line
from tests.broker.conftest import BODY, make_stage  # noqa: F401 - a fixture
from tests.broker.workers import Stage, Worker, events, produce, wait_until
from tests.deploy.installed import PROJECT, ROOT, UV, Environment, build_wheel, dependencies
from tests.registry.stand_in import stand_in

Install = Callable[[str], Environment]

# Asks every command for its help, by the tree of commands, in one process.
HELP_OF_ALL = """
import sys
import typer
from slidestat.cli.main import app
from typer.testing import CliRunner

def ask(command, *names):
    said = CliRunner().invoke(app, [*names, "--help"])
    assert said.exit_code == 0, (names, said.output, said.exception)
    print(*names)
    for name, inner in getattr(command, "commands", {}).items():
        ask(inner, *names, name)

ask(typer.main.get_command(app))
"""
DRIVER = """
import sys
from slidestat import Count, Topology, TopologyDriver

fields, schemas = eval(sys.argv[1])
topology = Topology(
    name="t", source="s", span="1h", every="10m", statistics=(Count(),), **fields
)
driver = TopologyDriver(topology, schemas=schemas)
driver.send(*({"key": "a", "time": 1_764_000_000_000 + i} for i in range(3)))
driver.close_windows()
print([emission.figures[0].estimate for emission in driver.emissions], driver.dead_letters)
"""
SYNOPSES = """
import slidestat.synopses as synopses
for name in synopses.__all__:
    getattr(synopses, name)
count = synopses.ExponentialHistogram.create(synopses.CountParameters(epsilon=0.1, span=100))
count.insert([1, 2, 3])
print(count.query(100, 4).estimate)
"""
SPARK = """
import slidestat.spark as face
from slidestat.spark.session import spark_session

for name in face.__all__:
    getattr(face, name)
with spark_session("wheel", "local[1]") as spark:
    face.register_functions(spark)
    print(min(row.function for row in spark.sql("show user functions").collect()))
"""
MSK = """
import os
os.environ.update(AWS_ACCESS_KEY_ID="nobody", AWS_SECRET_ACCESS_KEY="nothing")
from slidestat.kafka.msk import msk_signer

token, until = msk_signer("eu-west-1").token()
print(len(token) > 100, until > 0)
"""
OTLP = """
import os
os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://127.0.0.1:1"
os.environ["OTEL_METRICS_EXPORTER"] = "otlp"
from slidestat.web.otlp import METRICS, _Sender

print(type(_Sender.of_environment(METRICS, "one").requests).__name__)
"""
MCP = """
import json, subprocess, sys
client = {"name": "a", "version": "1"}
start = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
asked = [("initialize", 1, start), ("notifications/initialized", None, {}), ("tools/list", 2, {})]
server = subprocess.Popen(
    [sys.executable, "-m", "slidestat", "mcp", "--url", "http://127.0.0.1:1"],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
)
for method, number, parameters in asked:
    message = {"jsonrpc": "2.0", "method": method, "params": parameters}
    server.stdin.write(json.dumps(message | ({"id": number} if number else {})) + "\\n")
    server.stdin.flush()
    if number:
        answer = json.loads(server.stdout.readline())
server.terminate()
print(len(answer["result"]["tools"]) > 2)
"""
AVRO = '{"type": "record", "name": "e", "fields": [{"name": "key", "type": "string"},'
AVRO += ' {"name": "time", "type": "long"}]}'
PROTOBUF = 'syntax = "proto3"; message E { string key = 1; int64 time = 2; }'


# The last test of the module also waits until a gigabyte of environments is removed.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def compiled_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout for this Python, with machine code."""
    return build_wheel(tmp_path_factory.mktemp("compiled"), kernels=True)


@pytest.fixture(scope="module")
def install(compiled_wheel: Path) -> Iterator[Install]:
    """Install the wheel with an extra, once; what it takes is removed with the last of them: it is
    more than a gigabyte.
    """
    with TemporaryDirectory() as name:
        folder, made = Path(name), dict[str, Environment]()

        def installed(extra: str) -> Environment:
            if extra not in made:
                made[extra] = Environment(folder, compiled_wheel, extra, folder / "cache")
            return made[extra]

        yield installed


def test_the_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    """Modules, pages, locks of jars, data and the marker of types; the declarations that ship, the
    JSON Schemas and the licence; and nothing else.
    """
    names = set(zipfile.ZipFile(wheel).namelist())
    tracked = subprocess.run(
        ["git", "ls-files", "app/slidestat", "topologies", "schemas/json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    package = {re.sub(r"^app/|^(?=topologies|schemas)", "", name) for name in tracked}
    package = {name if name.startswith("slidestat/") else f"slidestat/{name}" for name in package}
    assert {name for name in names if ".dist-info/" not in name} == package
    assert {"slidestat/py.typed", "slidestat/web/static/index.html"} <= names
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_a_compiled_wheel_has_a_unit_of_each_package(wheel: Path, compiled_wheel: Path) -> None:
    """It is for this Python and these compilers alone, and has all else that the other one has.
    With another numba none of its units could be used: a first start would compile for minutes.
    """
    assert wheel.name.endswith("-py3-none-any.whl")
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert f"-{python}-{python}-" in compiled_wheel.name
    plain, compiled = (set(zipfile.ZipFile(path).namelist()) for path in (wheel, compiled_wheel))
    units = {name.rpartition("/")[2].rpartition("-")[0] for name in compiled - plain}
    assert plain <= compiled
    assert units == set(packages())
    pinned = {f"{name}=={version(name)}" for name in ("numba", "llvmlite")}
    assert pinned <= set(metadata_of(compiled_wheel).get_all("Requires-Dist", []))
    assert not pinned & set(metadata_of(wheel).get_all("Requires-Dist", []))


def test_a_compiled_wheel_compiles_nothing(install: Install) -> None:
    """A first figure with an empty cache; what the first start of a worker waited minutes for."""
    code = DRIVER + "\nfrom slidestat.kernels.compile import compiled_here"
    code += "\nfrom slidestat.kernels.units import cache_folder"
    code += "\nprint(compiled_here, [one.name for one in cache_folder().glob('*')])"
    done = install("worker").run("python", "-c", code, repr(({}, {})))
    assert done.stdout == "[3.0, 0.0] []\n[] []\n"
    assert (
        "machine code came with the package"
        in install("worker").run("slidestat", "doctor", "--bootstrap", "127.0.0.1:1", code=1).stdout
    )


def test_a_source_archive_makes_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    """Frontends build a wheel from it, and included files may lie elsewhere in it."""
    build = [sys.executable, "-m", "hatchling", "build", "--target", "sdist", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    again = build_wheel(tmp_path / "again", tmp_path / archive.name.removesuffix(".tar.gz"))
    first, second = (zipfile.ZipFile(path) for path in (wheel, again))
    assert sorted(first.namelist()) == sorted(second.namelist())
    assert all(first.read(name) == second.read(name) for name in first.namelist())


def metadata_of(wheel: Path) -> "Message[str, str]":
    """Return what an installer reads of a wheel."""
    (name,) = (n for n in zipfile.ZipFile(wheel).namelist() if n.endswith("/METADATA"))
    return message_from_string(zipfile.ZipFile(wheel).read(name).decode())


def test_an_index_can_show_the_description(wheel: Path) -> None:
    """All of README, but for pictures and links that lead to files beside it."""
    metadata = metadata_of(wheel)
    assert metadata["Description-Content-Type"] == "text/markdown"
    text = metadata.get_payload()
    assert isinstance(text, str)
    targets = re.findall(r"\]\(([^)]*)\)|<(?:a|img)[^>]+(?:href|src)=\"([^\"]*)\"", text)
    assert [target for target in targets if not "".join(target).startswith("https://")] == []
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text.startswith("# slidestat\n")
    for heading in re.findall(r"^#.*$", readme, re.MULTILINE):
        assert heading in text.splitlines()
    assert set(metadata.get_all("Provides-Extra", [])) == set(PROJECT["optional-dependencies"])


def test_a_worker_s_commands_run_with_its_extra_alone(install: Install) -> None:
    """What belongs to other extras is imported where it is used, and else named."""
    environment = install("worker")
    assert environment.run("slidestat", "--version").stdout.split() == [
        "slidestat",
        PROJECT["version"],
    ]
    commands = environment.run("python", "-c", HELP_OF_ALL).stdout.splitlines()
    assert {"broker", "doctor", "spark backfill", "topology show", "dlq send"} <= set(commands)
    schema = environment.run("slidestat", "schema", "emission").stdout
    assert json.loads(schema)["title"] == "Emission"
    lists = [UV, "pip", "list", "--quiet", "--format", "json", "--python", environment.folder]
    found = subprocess.run(lists, capture_output=True, check=True).stdout
    assert {it["name"] for it in json.loads(found)} == {"slidestat", *dependencies("worker")}


def test_without_an_extra_the_command_names_one(install: Install) -> None:
    """In two lines."""
    said = install("").run("slidestat", "--version", code=2).stderr
    assert "pip install 'slidestat[worker]'" in said
    assert len(said.splitlines()) == 2


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["broker"], "slidestat[local]"),
        (["spark", "audit", "flights", "--lake", "none"], "slidestat[spark]"),
    ],
)
def test_a_command_of_another_extra_names_it(
    install: Install, arguments: list[str], named: str
) -> None:
    """Also where a Java is there, and the jars alone are not."""
    said = install("worker").run("slidestat", *arguments, code=2).stderr
    assert named in said
    assert "Traceback" not in said


@pytest.mark.long
def test_synopses_run_without_an_extra(install: Install) -> None:
    """All of them, with compiled kernels."""
    assert install("").run("python", "-c", SYNOPSES).stdout == "3.0\n"


@pytest.mark.long
@pytest.mark.parametrize(
    ("extra", "fields", "schemas"),
    [
        ("worker", {}, {}),
        ("avro", {"output_format": "avro"}, {}),
        ("avro", {"source_format": "avro"}, {1: AVRO}),
        ("protobuf", {"source_format": "protobuf"}, {1: PROTOBUF}),
        ("local", {}, {}),
    ],
)
def test_topologies_are_tested_with_an_extra_alone(
    install: Install, extra: str, fields: dict[str, object], schemas: dict[int, str]
) -> None:
    """The driver counts in the formats of the extra."""
    done = install(extra).run("python", "-c", DRIVER, repr((fields, schemas)), timeout=600)
    assert done.stdout == "[3.0, 0.0] []\n"


@pytest.mark.long
@pytest.mark.parametrize(
    ("extra", "code", "printed"),
    [
        ("msk", MSK, "True True\n"),
        ("otlp", OTLP, "MetricRequests\n"),
        ("mcp", MCP, "True\n"),
    ],
)
def test_what_an_extra_is_for_runs_with_it_alone(
    install: Install, extra: str, code: str, printed: str
) -> None:
    """A token for a broker, requests for a collector, the tools of an assistant; the others are in
    tests of their own.
    """
    assert install(extra).run("python", "-c", code).stdout == printed


def test_no_extra_is_without_a_test() -> None:
    """A new one is added here."""
    tried = {"worker", "local", "spark", "avro", "protobuf", "msk", "otlp", "mcp"}
    assert set(PROJECT["optional-dependencies"]) == tried


@pytest.mark.long
@pytest.mark.parametrize("extra", ["worker", "avro"])
def test_a_worker_runs_with_its_extra_alone(
    install: Install,
    make_stage: Callable[..., Stage],  # noqa: F811
    extra: str,
    tmp_path: Path,
) -> None:
    """It writes what the checkout's would; and commands beside it show the declaration, the
    machine and what was written.
    """
    environment = install(extra)
    with stand_in() as registry:
        format_ = 'output_format="avro",' if extra == "avro" else ""
        stage = make_stage(body=BODY + format_)
        produce(stage.bootstrap, stage.topology.source, events(3_000))
        options = ["--schema-registry", registry.url] if format_ else []
        with Worker(
            stage.file, stage.data_dir(), stage.bootstrap, options, start=environment.start
        ) as worker:
            worker.await_ready()
            stage.await_settled([worker])
            worker.stop()
        emissions = stage.emissions()
        assert len(emissions) > 10
        if not format_:
            stage.check()
        at = ["--bootstrap", stage.bootstrap]
        shown = environment.run("slidestat", "topology", "show", stage.file, folder=tmp_path)
        assert stage.topology.output_topic in shown.stdout
        found = environment.run("slidestat", "doctor", stage.file, "--json", *at).stdout
        assert {json.loads(line)["verdict"] for line in found.splitlines()} <= {"good", "missing"}
        watch = ["watch", stage.file, "--once", "--from-beginning", "--json", *at, *options]
        assert len(environment.run("slidestat", *watch).stdout.splitlines()) == len(emissions)


@pytest.mark.long
def test_a_broker_runs_with_its_extra_alone(install: Install, tmp_path: Path) -> None:
    """One of its jars is fetched; any Java that is there will do, or its own."""
    environment = install("local")
    lend_jars(LOCK_FILE, environment)
    said = tmp_path / "said"
    with said.open("wb") as output:
        broker = environment.start(["broker", "--data-dir", str(tmp_path / "data")], output)
    try:
        wait_until(
            lambda: broker.poll() is not None or "Ctrl-C ends" in said.read_text(), "a broker", 120
        )
        broker.terminate()
        assert broker.wait(60) == 0, said.read_text()
    finally:
        broker.kill()
    assert "Apache Kafka is ready" in said.read_text()


@pytest.mark.long
def test_jobs_run_with_their_extra_alone(install: Install) -> None:
    """A session starts with its connector, of which one jar is fetched, and has our functions."""
    environment = install("spark")
    lend_jars(release_line().connector_lock, environment)
    assert environment.run("python", "-c", SPARK).stdout == "basic_count\n"
    said = environment.run(
        "slidestat", *["spark", "audit", "flights", "--lake", "none"], code=2
    ).stderr
    assert "has no records" in said


def lend_jars(lock: Path, environment: Environment) -> None:
    """Link a lock's jars into the environment's cache, but the smallest."""
    _, *lent = sorted(fetched_jars(lock, lock.stem), key=lambda jar: jar.stat().st_size)
    folder = environment.cache / "slidestat" / lock.stem
    folder.mkdir(parents=True, exist_ok=True)
    for jar in lent:
        (folder / jar.name).hardlink_to(jar)
