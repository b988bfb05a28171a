"""The command line: what each command prints, and how it fails."""

import gzip
import json
import os
import pty
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from slidestat.admin.topics import TopicRow
from slidestat.cli.display.lines import show_topics
from slidestat.cli.main import app
from tests.commands import TIME_MS, ReadTopic, RunCli, WriteEvents
from tests.conftest import MakeTopic

COMMANDS = (
    "broker",
    "topics",
    "produce",
    "run",
    "watch",
    "query",
    "top",
    "demo",
    "topology",
    "schema",
)
FLAGS = ("run", "--source", "s", "--name", "t", "--span", "1h", "--every", "1m")


@pytest.mark.parametrize("command", COMMANDS)
def test_help(command: str, run_cli: RunCli) -> None:
    """Each command explains itself, with an example."""
    run = run_cli(command, "--help")
    assert run.returncode == 0
    assert ("Example: slidestat" in run.stdout) or command in ("topics", "topology")
    assert command in run_cli("--help").stdout


HEAVY = (
    *("numba", "pyarrow", "pyspark", "faust", "aiokafka", "aiohttp", "asyncio", "filelock"),
    *("confluent_kafka", "numpy"),
)
# What Kafka's client imports, and a declaration.
_OF_BROKERS = ["asyncio", "confluent_kafka", "numpy"]


@pytest.mark.parametrize(
    ("arguments", "imported"),
    [
        (["--help"], []),
        (["schema", "emission"], []),
        (["query", "flights", "JFK"], ["numpy"]),
        (["top", "flights", "count_1d", "--url", "http://127.0.0.1:1"], ["numpy"]),
        (["topology", "show", "flights", "--asyncapi"], _OF_BROKERS),
        (["topology", "show", "flights", "--strimzi", "3"], _OF_BROKERS),
        (["topics", "list", "--bootstrap", "no address"], _OF_BROKERS),
        (["watch", "flights", "--bootstrap", "no address"], _OF_BROKERS),
        (["dlq", "count", "flights", "--bootstrap", "no address"], _OF_BROKERS),
        (["dlq", "send", "flights", os.devnull, "--bootstrap", "no address"], _OF_BROKERS),
        # What it has measured, the first time, with numba and all kernels.
        (["topology", "show", "flights"], ["numpy"]),
    ],
)
def test_quick_commands_import_little(
    arguments: list[str], imported: list[str], tmp_path: Path
) -> None:
    """Each of these packages takes a tenth of a second and more; a second time at the latest."""
    code = (
        "import atexit, sys\n"
        f"sys.argv[1:] = {arguments!r}\n"
        f"atexit.register(lambda: print([it for it in {HEAVY!r} if it in sys.modules]))\n"
        "from slidestat.cli.main import main\n"
        "main()\n"
    )
    env = {"PYTHONPATH": str(Path(__file__).parents[2] / "app"), "XDG_DATA_HOME": str(tmp_path)}
    for _ in range(2 if arguments == ["topology", "show", "flights"] else 1):
        run = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | env,
        )
    assert run.stdout.splitlines()[-1] == repr(imported), run.stderr


def test_ctrl_c_while_the_command_is_loaded() -> None:
    """It ends the command as it does later: in silence, with the signal's exit code."""
    code = (
        "import signal, sys\n"
        "class Impatient:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'typer': signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Impatient())\n"
        "from slidestat.__main__ import main\n"
        "main()\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )
    assert (run.returncode, run.stdout, run.stderr) == (130, "", "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has a full disk to write to")
@pytest.mark.parametrize("arguments", [["schema", "emission"], ["schema"], ["--help"]])
def test_output_that_has_no_room(arguments: list[str]) -> None:
    """Two lines, not a stack trace, whether it is noticed at once or at the end."""
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        run = subprocess.run(
            [sys.executable, "-m", "slidestat", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert run.returncode == 2
    assert run.stderr.startswith("error: Not all could be written: No space left on device.\n")
    assert "what to do: Make room" in run.stderr
    assert len(run.stderr.splitlines()) == 2


def test_an_encoding_that_lacks_a_letter() -> None:
    """What is printed is escaped as JSON has it, and so JSON stays what it was."""
    code = (
        "import sys\n"
        "from slidestat.cli import main as cli\n"
        'cli.app = lambda: print(\'{"key":"/caf\\u00e9 \\u2026 \\U0001f600"}\')\n'
        "cli.main()\n"
    )
    for encoding, shown, way in (
        ("ascii", "\\u00e9", {"PYTHONIOENCODING": "ascii"}),
        ("ascii", "\\u00e9", {"LC_ALL": "C"}),
        ("latin-1", "\xe9", {"PYTHONIOENCODING": "latin-1"}),
        ("utf-8", "\xe9", {"PYTHONIOENCODING": "utf-8"}),
    ):
        run = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            check=False,
            env=os.environ | way | {"PYTHONUTF8": "0"},
        )
        assert run.returncode == 0, run.stderr
        text = run.stdout.decode(encoding)
        assert f"/caf{shown}" in text
        assert json.loads(text) == {"key": "/caf\xe9 \u2026 \U0001f600"}


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_were_closed(closed: str) -> None:
    """What is read is empty, and what is written goes nowhere: neither ends in a stack trace."""
    for arguments, code in (("produce - --topic t --bootstrap 127.0.0.1:1", 2), ("schema", 0)):
        run = subprocess.run(
            ["sh", "-c", f"{sys.executable} -m slidestat {arguments} {closed}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == code, run.stderr
        assert "Traceback" not in run.stderr


def test_help_on_80_columns_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """No command, at any depth, cuts a word or keeps a docstring's line ends; each paragraph is one
    text that a terminal breaks, and no switch has an opposite of its own.
    """
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "")
    commands = [([], get_command(app))]
    for path, command in commands:
        for name, below in getattr(command, "commands", {}).items():
            commands.append(([*path, name], below))
        shown = CliRunner().invoke(app, [*path, "--help"]).output
        assert "\u2026" not in shown, path
        assert "--no-" not in shown, path
        for paragraph in (command.help or "").split("\n\n"):
            assert "\n" not in paragraph, path
    assert ["spark", "backfill"] in [path for path, _ in commands]


def test_commands_to_copy_have_quoted_names(
    tmp_path: Path, topic_name: str, write_events: WriteEvents, run_cli: RunCli
) -> None:
    """A file whose path has a space is named as a shell takes it."""
    file = tmp_path / "a topology.toml"
    run_cli("topics", "create", topic_name, "--partitions", "2")
    produced = run_cli("produce", str(write_events(500)), "--topic", topic_name)
    assert produced.returncode == 0, produced.stderr
    proposed = run_cli("init", topic_name, "--file", str(file), "--yes")
    assert f"slidestat run '{file}'\n" in proposed.stdout
    assert f"slidestat watch '{file}'\n" in proposed.stdout
    assert f"`slidestat run '{file}'`" in run_cli("init", topic_name, "--file", str(file)).stderr
    assert f"`slidestat run '{file}'` makes it" in run_cli("watch", str(file)).stderr
    assert f"slidestat run '{file}'" in run_cli("dlq", "count", str(file)).stderr


def test_tables_in_a_pipe_have_no_blanks_at_the_ends(run_cli: RunCli) -> None:
    """A long fact of a topology makes no other line as long."""
    run = run_cli("topology", "show", "web")
    assert run.returncode == 0
    assert [line for line in run.stdout.splitlines() if line != line.rstrip()] == []


def test_a_list_of_topics_in_a_pipe_cuts_no_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Names of changelogs are longer than what a terminal of 80 columns leaves them."""
    monkeypatch.setenv("COLUMNS", "80")
    name = "slidestat-requests-requests-state-changelog" * 3
    show_topics([TopicRow(name, 4, 28, "7d", "compact")], as_json=False)
    assert f" {name} " in capsys.readouterr().out


def test_a_declaration_is_shown_before_kernels_are_loaded() -> None:
    """They take half a second to load, with what they need."""
    code = "import sys, slidestat.cli.display.topology; print('numba' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"


def test_from_topic_to_list(
    topic_name: str, run_cli: RunCli, write_events: WriteEvents, read_topic: ReadTopic
) -> None:
    """A topic is created, filled and listed with the counts that each step printed."""
    created = run_cli("topics", "create", topic_name, "--partitions", "2")
    assert created.stdout == f"{topic_name}: created, 2 partitions, retention forever\n"
    again = run_cli("topics", "create", topic_name, "--partitions", "2")
    assert again.stdout == f"{topic_name}: exists already, 2 partitions, retention forever\n"
    sent = run_cli("produce", str(write_events(1_000)), "--topic", topic_name)
    assert sent.stdout.startswith(f"1,000 events sent to {topic_name} in ")
    assert sent.stderr == ""
    assert len(read_topic(topic_name)) == 1_000
    listed = run_cli("topics", "list", "--json")
    rows = {row["name"]: row for row in map(json.loads, listed.stdout.splitlines())}
    assert rows[topic_name] == {
        "name": topic_name,
        "partitions": 2,
        "records": 1_000,
        "retention": "forever",
        "cleanup_policy": "delete",
    }
    assert topic_name in run_cli("topics", "list").stdout


def test_topics_of_a_topology(tmp_path: Path, topic_name: str, run_cli: RunCli) -> None:
    """A topology's file is enough to create its four topics."""
    file = tmp_path / "mine.py"
    file.write_text(
        "from slidestat.declare.topology import Topology\n"
        f'topology = Topology(name="{topic_name}", source="{topic_name}", span="1h", every="1m")\n'
    )
    run = run_cli("topics", "create", "--topology", str(file), "--partitions", "3")
    assert run.returncode == 0, run.stderr
    assert len(run.stdout.splitlines()) == 4
    assert run.stdout.count("created, 3 partitions, retention forever") == 4


def test_standard_input(make_topic: MakeTopic, run_cli: RunCli, read_topic: ReadTopic) -> None:
    """JSON lines come from standard input, with columns and units as told."""
    topic = make_topic()
    run = run_cli(
        *("produce", "-", "--topic", topic, "--key", "k", "--time-unit", "s", "--skip-bad"),
        stdin=f'{{"k":7,"time":{TIME_MS // 1000},"value":"1.5"}}\nbad\n',
    )
    assert run.stdout.startswith("1 bad row left out, the first: row 2: is not a JSON object")
    (message,) = read_topic(topic)
    assert json.loads(message.value()) == {"key": "7", "time": TIME_MS, "value": "1.5"}


def _all_drawn(controller: int) -> str:
    drawn = b""
    with suppress(OSError):  # how a terminal says that nobody has it open any more
        while part := os.read(controller, 100_000):
            drawn += part
    return drawn.decode()


def test_progress_bar_on_a_terminal(
    make_topic: MakeTopic, bootstrap_servers: str, write_events: WriteEvents
) -> None:
    """On a terminal a bar is drawn on standard error, and the last line is on standard output."""
    controller, terminal = pty.openpty()
    with subprocess.Popen(
        [
            *(sys.executable, "-m", "slidestat", "produce", str(write_events(2_000))),
            *("--topic", make_topic(), "--rate", "4000", "--bootstrap", bootstrap_servers),
        ],
        stdout=subprocess.PIPE,
        stderr=terminal,
        text=True,
        env=os.environ
        | {"PYTHONPATH": str(Path(__file__).parents[2] / "app"), "TERM": "xterm", "COLUMNS": "120"},
    ) as process:
        os.close(terminal)
        drawn = _all_drawn(controller)  # a terminal that nobody reads fills, and holds up who draws
        assert process.stdout is not None
        told = process.stdout.read()
    os.close(controller)
    assert told.startswith("2,000 events sent to ")
    assert "events.jsonl" in drawn


@pytest.mark.parametrize(
    ("arguments", "message", "advice"),
    [
        (("topics", "create"), "not clear which topic", "--topology"),
        (("topics", "create", "a", "--topology", "web"), "not clear which topic", "--topology"),
        (("topics", "create", "a", "--retention", "7"), "retention is '7'", "whole number"),
        (("topics", "create", "a b"), "refuses the topic 'a b'", "name"),
        (("watch",), "not clear what to watch", "--topic"),
        (("watch", "flights", "--topic", "a"), "not clear what to watch", "not both"),
        (("watch", "--topic", "nosuch"), "no topic 'nosuch'", "topics create nosuch"),
        (
            ("watch", "nosuch"),
            "no topology 'nosuch'",
            "flights_parties, landings, web",
        ),
        (("watch", "landings"), "no topic 'landings-statistics'", "run landings` makes it"),
        (("dlq", "count", "landings"), "no topic 'landings-dead-letters'", "run landings"),
        (("dlq", "show", "landings", "--reason", "bad-tim"), "no reason 'bad-tim'", "bad-time?"),
        (("run", "nosuch.py"), "no file nosuch.py", "path"),
        (("run",), "no topology to run", "--source"),
        (("run", "web", "--span", "1h"), "Both the topology web and --span", "Leave one out"),
        (("run", "--source", "s"), "--name is missing", "give it"),
        ((*FLAGS, "--span", "1w"), "--span is '1w'", '"90s"'),
        ((*FLAGS, "--window", "1m", "--window", "2h"), "--window has '2h'", "shorten the window"),
        ((*FLAGS, "--key", "a", "--time", "a"), "--key, --time and --value are", "three different"),
        ((*FLAGS, "--statistic", "sums"), "--statistic 'sums': kind is", "Did you mean sum?"),
        ((*FLAGS, "--statistic", "sum:epsilon=2"), "'sum:epsilon=2': epsilon is 2", "0.0001 to 1"),
        (("topology", "show", "nosuch"), "no topology 'nosuch'", ".toml file"),
        (("schema", "emision"), "no schema of 'emision'", "Did you mean emission?"),
        (("produce", "-", "--topic", "t", "--with", "key"), "two fields 'key'", "once"),
        (("produce", "-", "--topic", "t", "--raw", "--with", "a"), "raw", "--with"),
        (("produce", "nosuch.csv", "--topic", "t"), "no file nosuch.csv", "path"),
        (("produce", "-", "--topic", "nosuch"), "no topic 'nosuch'", "topics create nosuch"),
    ],
)
def test_mistakes(arguments: tuple[str, ...], message: str, advice: str, run_cli: RunCli) -> None:
    """A mistake ends in what is wrong and what to do, exit code 2, and no stack trace."""
    run = run_cli(*arguments)
    assert run.returncode == 2
    error, to_do = run.stderr.splitlines()
    assert error.startswith("error: ")
    assert message in error
    assert to_do.startswith("what to do: ")
    assert advice in to_do
    assert run.stdout == ""


@pytest.mark.parametrize("port", ["0", "80000"])
def test_a_port_that_cannot_be(port: str, run_cli: RunCli) -> None:
    """It is refused before a broker is started for it."""
    run = run_cli("broker", "--port", port)
    assert run.returncode == 2
    assert "Invalid value for '--port'" in run.stderr
    assert "Traceback" not in run.stderr


def test_schemas(run_cli: RunCli) -> None:
    """Each record that is listed has the schema that is published."""
    listed = run_cli("schema")
    names = [line.partition(": ")[0] for line in listed.stdout.splitlines()]
    assert names == [
        "event",
        "emission",
        "emission.v2",
        "alert",
        "alert.v2",
        "dead-letter-headers",
        "synopsis-headers",
        "ranking",
        "party-clock",
        "party-clock.v2",
    ]
    for name in names:
        run = run_cli("schema", name)
        stem = name if name.endswith(".v2") else f"{name}.v1"
        file = Path(__file__).parents[2] / "schemas" / "json" / f"{stem}.schema.json"
        assert (run.returncode, run.stdout) == (0, file.read_text())


def test_unsupported_codec(run_cli: RunCli) -> None:
    """An unknown codec is told with those there are."""
    run = run_cli("produce", "-", "--topic", "t", "--compression", "brotli")
    assert run.returncode == 2
    assert "'brotli' is not one of 'none', 'gzip', 'snappy', 'lz4', 'zstd'" in run.stderr


def test_no_broker(run_cli: RunCli) -> None:
    """Without a broker each command says that it waits, then where it looked and how to start one,
    and no more.
    """
    commands = [
        ("topics", "list"),
        ("topics", "create", "a"),
        ("watch", "--topic", "a"),
        ("produce", "-", "--topic", "a"),
        ("run", "web"),
    ]
    # Side by side: each waits some seconds for a broker that may be starting.
    with ThreadPoolExecutor(len(commands)) as pool:
        runs = pool.map(lambda command: run_cli(*command, bootstrap="127.0.0.1:1"), commands)
    for run in runs:
        assert run.returncode == 2
        waits, *error = run.stderr.splitlines()
        # A worker has the time in front.
        assert waits.endswith("waiting for a broker at 127.0.0.1:1 ...")
        assert error == [
            "error: No Kafka broker answers at 127.0.0.1:1.",
            "what to do: Start one with `slidestat broker`, or say where one is with --bootstrap "
            "or KAFKA_BOOTSTRAP_SERVERS; one with TLS or passwords needs KAFKA_SECURITY_PROTOCOL.",
        ]


def test_damaged_file(tmp_path: Path, make_topic: MakeTopic, run_cli: RunCli) -> None:
    """A file that breaks off says so, and no stack trace follows."""
    file = tmp_path / "a.csv.gz"
    file.write_bytes(gzip.compress(b"key,time,value\n" + b"a,1,1\n" * 999)[:-9])
    run = run_cli("produce", str(file), "--topic", make_topic())
    assert run.returncode == 2
    assert run.stderr.startswith(f"error: {file} cannot be read: ")
    assert "Traceback" not in run.stderr
