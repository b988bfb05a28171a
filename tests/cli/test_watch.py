"""Watching shows the figures of a topic, those there are or those that come."""

import json
import os
import signal
import subprocess
import sys
from io import StringIO
from itertools import chain, islice
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import KafkaError, Producer
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from slidestat import Count, Sum, Topology
from slidestat.cli.display.watch import Latest, show_rows, undeclared_note, watch, watch_alerts
from slidestat.errors import SlidestatError
from slidestat.kafka.read.topic_reader import AlertReader, EmissionReader
from slidestat.schemas.dead_letter import DeadLetterHeaders, Reason
from slidestat.schemas.emission import Emission, Figure
from slidestat.text import Row
from tests.commands import RunCli
from tests.conftest import MakeTopic

END_MS = 978_328_800_000


def count(estimate: float) -> Figure:
    return Figure(
        "count",
        estimate,
        estimate * 0.99,
        estimate * 1.01,
        window_ms=86_400_000,
        relative_error=0.01,
    )


def emission(key: str, *figures: Figure, end_ms: int = END_MS) -> Emission:
    return Emission(
        topology="flights",
        key=key,
        window_end_ms=end_ms,
        figures=list(figures),
        source_topic="flights",
        source_partition=0,
        source_offset=1,
    )


def send(bootstrap: str, topic: str, *values: Emission | bytes) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        data = value if isinstance(value, bytes) else msgspec.json.encode(value)
        producer.produce(topic, data)
    producer.flush()


@pytest.fixture
def output_topic(bootstrap_servers: str, make_topic: MakeTopic) -> str:
    """A topic of 30 emissions of 10 keys, two figures in each, and one record that is none, on 3
    partitions. Half of the keys have a mean too, of no events.
    """
    topic = make_topic("output", partitions=3)
    mean = Figure("mean", None, None, None, window_ms=86_400_000)
    emissions = [
        emission(
            f"K{i}",
            count(100.0 * i),
            Figure("quantile", 5.0, 4.0, 6.0, quantile=0.5, window_events=1_000),
            *([mean] if i % 2 else []),
            end_ms=END_MS + 3_600_000 * hour,
        )
        for hour in range(3)
        for i in range(10)
    ]
    send(bootstrap_servers, topic, *emissions, b"not an emission")
    return topic


def test_json_once(output_topic: str, run_cli: RunCli) -> None:
    """Once and as JSON: every record as it is, one a line, and an end."""
    run = run_cli("watch", "--topic", output_topic, "--once", "--json")
    assert run.returncode == 0
    found = [msgspec.json.decode(line, type=Emission) for line in run.stdout.splitlines()]
    assert len(found) == 30
    assert {e.key for e in found} == {f"K{i}" for i in range(10)}
    assert {len(e.figures) for e in found} == {2, 3}
    assert run.stderr == "Records that were not emissions: 1.\n"


def test_keys_by_pattern(output_topic: str, run_cli: RunCli) -> None:
    """A pattern leaves the other keys out."""
    run = run_cli("watch", "--topic", output_topic, "--once", "--json", "--key", "K[12]")
    assert {json.loads(line)["key"] for line in run.stdout.splitlines()} == {"K1", "K2"}


def test_lines_once(output_topic: str, run_cli: RunCli) -> None:
    """Once and not on a terminal: a plain line for each latest figure, `rows` many."""
    run = run_cli("watch", "--topic", output_topic, "--once", "--rows", "7")
    lines = run.stdout.splitlines()
    assert len(lines) == 7
    assert "These are the newest 7 rows; --rows shows more.\n" in run.stderr
    # Partitions are read side by side, so only a key's own order is sure.
    assert all("1d count " in line or "quantile 0.5 " in line or "mean " in line for line in lines)
    assert all("Z" in line for line in lines)
    everything = run_cli("watch", "--topic", output_topic, "--once", "--rows", "99")
    assert len(everything.stdout.splitlines()) == 25
    assert "--rows" not in everything.stderr


def test_columns_stand_under_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    """Plain lines shown at once have each column at one place, however long items are."""
    figures = [
        Figure(statistic=name, estimate=1.0, lower=1.0, upper=1.0, window_ms=60_000, item=item)
        for name, item in (("count", None), ("top_browser.version", "17.4"), ("sum", None))
    ]
    figures += [Figure("count", 1.0, 1.0, 1.0, window_ms=90_000_000, window="this_week")]
    show_rows([Row("K1", 0, figure) for figure in figures], Console())
    lines = capsys.readouterr().out.splitlines()
    assert {line.index(" K1 ") for line in lines} == {lines[1].index(" K1 ")}
    assert len({line.index(" in [") for line in lines}) == 1


def test_lines_of_one_statistic(output_topic: str, run_cli: RunCli) -> None:
    """Of one statistic, its figures and no others; as JSON, whole records that have one."""
    of_mean = ("watch", "--topic", output_topic, "--once", "--statistic", "mean", "--key", "K3")
    line = run_cli(*of_mean).stdout
    assert line.split()[1:] == ["1d", "mean", "K3", "-", "in", "[-,", "-]"]
    records = run_cli(*of_mean[:-2], "--json").stdout.splitlines()
    assert len(records) == 15
    assert all(len(json.loads(record)["figures"]) == 3 for record in records)


@pytest.mark.parametrize("as_json", [(), ("--json",)])
def test_nothing_to_show_once(
    output_topic: str, make_topic: MakeTopic, run_cli: RunCli, as_json: tuple[str, ...]
) -> None:
    """Once, with nothing to show, one line says why, and the end is a good one."""
    empty = make_topic()
    for topic, wanted, why in (
        (
            empty,
            (),
            f"{empty} has no emissions; `slidestat dlq count` says whether records were refused."
            " A worker writes figures when event time less the lateness passes a multiple of"
            " `every`.",
        ),
        (
            output_topic,
            ("--key", "K9*", "--statistic", "median"),
            "of 30 emissions read, none has a key like 'K9*' and the statistic 'median'.",
        ),
        (output_topic, ("--key", "X"), "of 30 emissions read, none has a key like 'X'."),
    ):
        run = run_cli("watch", "--topic", topic, "--once", *wanted, *as_json)
        assert (run.returncode, run.stdout) == (0, "")
        assert run.stderr.splitlines()[0] == f"Nothing is there: {why}"


def test_a_statistic_with_a_slip_is_told() -> None:
    """Before a wait that would not end. It is no error: older emissions may have the statistic."""
    topology = Topology(
        name="t",
        source="s",
        span="1h",
        every="1m",
        statistics=(Count(), Sum()),
        derived=("sum / count as average",),
    )
    assert undeclared_note(topology, "cuont") == (
        "t declares no statistic 'cuont'. Did you mean count? There are count, sum, average."
    )
    assert undeclared_note(topology, "average") is None
    assert undeclared_note(topology, None) is None


def test_dead_letters_are_told_by_their_reasons(
    bootstrap_servers: str, make_topic: MakeTopic, run_cli: RunCli
) -> None:
    """How many there are of each, and one of them; whatever keys and details they have."""
    topic = make_topic()
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    reasons = [Reason.BAD_KEY, Reason.NOT_JSON, Reason.BAD_KEY]
    for offset, reason in enumerate(reasons):
        letter = DeadLetterHeaders(reason, f"no\x1b[2J {offset}", "shop", 3, offset, "orders")
        headers = [*letter.encode(), ("original_key", b"\xff")]
        producer.produce(topic, b"{}" if offset else None, headers=headers)
    producer.produce(topic, b"no letter", headers=[("reason", None)])
    producer.flush()
    run = run_cli("watch", "--topic", topic, "--once")
    assert (run.returncode, run.stdout) == (0, "")
    assert run.stderr.splitlines() == [
        "Dead letters, bad-key: 2, such as shop/3/0: no\\x1b[2J 0",
        "Dead letters, not-json: 1, such as shop/3/1: no\\x1b[2J 1",
        "Records that were not emissions: 1.",
    ]


def test_nothing_in_the_tail_of_a_long_topic(
    bootstrap_servers: str, make_topic: MakeTopic, run_cli: RunCli
) -> None:
    """Where not all records were looked at, the line says how to look at all."""
    topic = make_topic()
    send(bootstrap_servers, topic, emission("old", count(1)), *[emission("new", count(1))] * 10_000)
    run = run_cli("watch", "--topic", topic, "--once", "--key", "old")
    assert run.stderr.endswith("a key like 'old'; --from-beginning reads all.\n")
    run = run_cli("watch", "--topic", topic, "--once", "--key", "old", "--from-beginning")
    assert (len(run.stdout.splitlines()), run.stderr) == (1, "")


def test_watching_as_they_come(bootstrap_servers: str, output_topic: str) -> None:
    """A reader from the end gives what comes after it, from the beginning all of it."""
    reader = EmissionReader(bootstrap_servers, output_topic, range(3), from_beginning=True)
    batches = reader.batches()
    assert len(list(islice(chain.from_iterable(batches), 30))) == 30
    batches.close()

    reader = EmissionReader(bootstrap_servers, output_topic, range(3))
    batches = reader.batches()
    next(batches)  # Assigned, and asked for the ends.
    send_until_read = []
    while not send_until_read:
        # A partition's end is known at its first fetch only: send until one is seen.
        send(bootstrap_servers, output_topic, emission("new", count(5.0)))
        send_until_read = next(batches)
    assert {record.emission.key for record in send_until_read} == {"new"}
    batches.close()


def test_a_broker_of_several_may_restart(bootstrap_servers: str, output_topic: str) -> None:
    """The client takes brokers that it had no use for so far for down, too (librdkafka 1101, 3090):
    reading ends where none answers, and for what does not pass.
    """
    reader = EmissionReader(bootstrap_servers, output_topic, range(3), from_beginning=True)
    batches = reader.batches()
    next(batches)
    for code in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
        reader._failed(KafkaError(code))
        next(batches)
    reader._failed(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(SlidestatError, match="no longer serves"):
        next(batches)


def test_ctrl_c_ends_well(bootstrap_servers: str, output_topic: str) -> None:
    """Ctrl-C ends watching with exit code 0 and no stack trace, its output whole."""
    arguments = ["watch", "--topic", output_topic, "--from-beginning"]
    process = subprocess.Popen(
        [sys.executable, "-m", "slidestat", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ
        | {
            "KAFKA_BOOTSTRAP_SERVERS": bootstrap_servers,
            "PYTHONPATH": str(Path(__file__).parents[2] / "app"),
        },
    )
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(75)]
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 0
    counts = [line for line in lines if " count " in line and " K0 " not in line]
    assert len(counts) == 27
    assert all("[" in line and "±1.00%" in line for line in counts)
    assert "Traceback" not in errors


def test_table_on_a_terminal(
    bootstrap_servers: str, output_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a terminal the latest figures stand in a table with estimate and bounds."""
    screen = StringIO()
    console = Console(file=screen, force_terminal=True, width=120, highlight=False)
    monkeypatch.setattr("slidestat.cli.display.watch.Console", lambda **_: console)
    reader = EmissionReader(bootstrap_servers, output_topic, range(3), key_glob="K7", once=True)
    watch(reader, 20, None, as_json=False)
    assert "2001-01-01T08:00:00Z" in screen.getvalue()
    for cell in ("K7", "700", "693", "707", "1.00", "quantile 0.5", "1,000 events"):
        assert cell in screen.getvalue()


def shown(latest: Latest) -> list[tuple[str, float | None]]:
    return [(row.key, row.figure.estimate) for row in latest.newest_first()]


def test_latest_is_bounded_and_newest_first() -> None:
    """The table keeps what was updated last, newest first, and not one row more."""
    latest = Latest(2)
    latest.update(emission(key, count(n)) for key, n in (("a", 1), ("b", 2), ("a", 3), ("c", 4)))
    assert shown(latest) == [("c", 4), ("a", 3)]
    latest.update([emission("d", count(5), count(6), count(7))])
    assert shown(latest) == [("d", 5), ("d", 6)]
    latest.update([emission("e", count(8))])
    assert shown(latest) == [("e", 8), ("d", 5)]


def test_latest_does_not_go_back() -> None:
    """An older window that is read later replaces nothing."""
    latest = Latest(2)
    latest.update([emission("a", count(1)), emission("a", count(2), end_ms=END_MS - 1)])
    assert shown(latest) == [("a", 1)]
    latest.update([emission("a", count(3))])
    assert shown(latest) == [("a", 3)]


def provisional(key: str, *figures: Figure, end_ms: int = END_MS) -> Emission:
    """An emission that another one will replace."""
    return msgspec.structs.replace(emission(key, *figures, end_ms=end_ms), provisional=True)


def test_latest_prefers_what_is_final() -> None:
    """A provisional figure stands until the final one comes, and does not take its place again."""
    latest = Latest(2)
    latest.update([provisional("a", count(1)), provisional("a", count(2))])
    assert shown(latest) == [("a", 2)]
    assert latest.newest_first()[0].provisional
    latest.update([emission("a", count(3)), provisional("a", count(2))])
    assert shown(latest) == [("a", 3)]
    assert not latest.newest_first()[0].provisional
    latest.update([provisional("a", count(4), end_ms=END_MS + 1)])
    assert shown(latest) == [("a", 4)]


def test_provisional_figures_are_marked(
    bootstrap_servers: str, make_topic: MakeTopic, run_cli: RunCli
) -> None:
    """As lines and on a terminal; the final ones are not."""
    topic = make_topic()
    send(bootstrap_servers, topic, provisional("a", count(1)), emission("b", count(2)))
    lines = run_cli("watch", "--topic", topic, "--once").stdout.splitlines()
    assert {line.split()[3]: line.endswith("% provisional") for line in lines} == {
        "a": True,
        "b": False,
    }
    screen = StringIO()
    rows = [Row("a", END_MS, count(1), provisional=True), Row("b", END_MS, count(2))]
    show_rows(rows, Console(file=screen, force_terminal=True, width=150, highlight=False))
    assert screen.getvalue().count("provisional") == 1


@pytest.mark.parametrize("width", [80, 100, 150])
def test_a_table_fits_a_narrow_terminal(width: int) -> None:
    """Numbers are there to their ends; what does not fit of a key or a statistic goes on below."""
    quantile = Figure("latency", 1234.56789, 1201.1, 1267.9, window_ms=3_600_000, quantile=0.99)
    key = "/checkout/payment/confirm"
    screen = StringIO()
    show_rows(
        [Row(key, END_MS, quantile), Row("b", END_MS, count(2))],
        Console(file=screen, force_terminal=True, width=width, highlight=False, color_system=None),
    )
    lines = screen.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert "…" not in screen.getvalue()
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines if "│" in line]
    assert "".join(row[0] for row in cells) == f"{key}b"
    assert "".join(row[1] for row in cells).replace(" ", "") == "latency0.99count"
    assert cells[0][4:] == ["1,234.6", "1,201.1", "1,267.9", "2.71"]


@pytest.mark.parametrize("width", [20, 40, 60])
def test_a_terminal_that_is_too_narrow_has_lines(
    width: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a table, the key and the statistic would vanish, and numbers would be cut."""
    screen = StringIO()
    row = Row("/checkout/payment/confirm", END_MS, count(1_234_567))
    narrow = Console(file=screen, force_terminal=True, width=width, color_system=None)
    assert show_rows([row], narrow) == 1
    assert screen.getvalue() == ""
    (line,) = capsys.readouterr().out.splitlines()
    assert "/checkout/payment/confirm" in line
    assert "1,234,567" in line


def test_what_is_older_than_the_newest_looks_so() -> None:
    """The rows of keys that were not written since are dim."""
    screen = StringIO()
    rows = [Row("new", END_MS, count(1)), Row("old", END_MS - 60_000, count(2))]
    show_rows(rows, Console(file=screen, force_terminal=True, width=150, color_system="standard"))
    lines = {
        key: line
        for line in screen.getvalue().splitlines()
        for key in ("new", "old")
        if key in line
    }
    assert "\x1b[2m" in lines["old"]
    assert "\x1b[2m" not in lines["new"]


def test_a_narrow_table_has_wide_keys_and_remarks() -> None:
    """Of characters that take two places, and rows with remarks: each line fits."""
    screen = StringIO()
    rows = [Row("東京タワー展望台", END_MS, count(1), provisional=True), Row("", END_MS, count(2))]
    show_rows(rows, Console(file=screen, force_terminal=True, width=80, highlight=False))
    lines = Text.from_ansi(screen.getvalue()).plain.splitlines()
    assert max(map(cell_len, lines)) <= 80
    assert "key" in screen.getvalue()
    assert "".join(line.split("│")[1].strip() for line in lines if "│" in line) == rows[0].key


def test_latest_forgets_what_a_newer_emission_no_longer_has() -> None:
    """An item that has left the frequent ones leaves the table, the last one too."""
    first, second = (Figure("top", 9.0, 9.0, 9.0, item=item) for item in "ab")
    latest = Latest(9, "top")
    latest.update([emission("k", first, second, count(20))])
    assert [row.figure.item for row in latest.newest_first()] == ["a", "b"]
    latest.update([emission("k", second, count(30), end_ms=END_MS + 1)])
    assert [row.figure.item for row in latest.newest_first()] == ["b"]
    latest.update([emission("k", count(40), end_ms=END_MS + 2)])
    assert latest.newest_first() == []


def test_what_is_not_shown_of_alerts_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After a silence, as of figures: else one would wait for what was written before."""
    monkeypatch.setattr("slidestat.cli.display.watch._SILENCE_S", 0.0)
    monkeypatch.setattr(AlertReader, "batches", lambda _: iter([[], []]))
    watch_alerts(AlertReader("127.0.0.1:1", "alerts", [0]), 5, as_json=False)
    told = capsys.readouterr().err
    assert told.count("--once shows the newest and --from-beginning all") == 1
    assert "when an alert begins to fire" in told
