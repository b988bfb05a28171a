"""What is sent arrives once, on the partition and with the time that it should."""

import json
import threading
from collections import Counter
from pathlib import Path

import pytest
from aiokafka.partitioner import murmur2

from slidestat.errors import SlidestatError
from slidestat.options import Compression, TimeUnit
from slidestat.produce.events import Columns
from slidestat.produce.produce import produce_file
from slidestat.produce.readers import Reader
from tests.commands import TIME_MS, ReadTopic, RunCli, WriteEvents
from tests.conftest import MakeTopic

NASA = Path(__file__).parents[3] / "shared" / "data" / "nasa_http_19950801.tsv.gz"


def test_every_event_arrives_where_java_puts_it(
    bootstrap_servers: str, make_topic: MakeTopic, read_topic: ReadTopic, write_events: WriteEvents
) -> None:
    """Each event arrives once, keyed and timed, in order on the partition of Java's partitioner."""
    topic = make_topic(partitions=3)
    report = produce_file(write_events(5_000), bootstrap_servers, topic)
    assert (report.sent, report.skipped, report.failed) == (5_000, 0, 0)
    messages = read_topic(topic)
    assert len(messages) == 5_000
    last_value: dict[int, int] = {}
    values = []
    for message in messages:
        event = json.loads(message.value())
        assert message.key() == event["key"].encode()
        assert message.timestamp()[1] == event["time"] == TIME_MS + 60_000 * event["value"]
        assert message.partition() == (murmur2(message.key()) & 0x7FFF_FFFF) % 3
        assert last_value.get(message.partition(), -1) < event["value"]
        last_value[message.partition()] = event["value"]
        values.append(event["value"])
    assert sorted(values) == list(range(5_000))


def test_a_hot_key_is_spread_and_the_others_stay(
    bootstrap_servers: str, make_topic: MakeTopic, read_topic: ReadTopic, tmp_path: Path
) -> None:
    """Events of a key that is to be spread are on all partitions, one more on some; each other key
    is where its partitioner puts it; all keep their own keys.
    """
    file = tmp_path / "events.jsonl"
    rows = [{"key": f"k{i % 3}", "time": TIME_MS + i, "value": i} for i in range(600)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    topic = make_topic(partitions=3)
    produce_file(file, bootstrap_servers, topic, spread=["k1"])
    places: dict[bytes, Counter[int]] = {}
    for message in read_topic(topic):
        assert json.loads(message.value())["key"].encode() == message.key()
        places.setdefault(message.key(), Counter())[message.partition()] += 1
    assert sorted(places[b"k1"].values()) == [66, 67, 67]
    for key in (b"k0", b"k2"):
        assert places[key] == {(murmur2(key) & 0x7FFF_FFFF) % 3: 200}


@pytest.mark.parametrize("compression", list(Compression))
def test_compressions(
    bootstrap_servers: str,
    make_topic: MakeTopic,
    read_topic: ReadTopic,
    write_events: WriteEvents,
    compression: Compression,
) -> None:
    """Events arrive under every codec that is offered."""
    topic = make_topic(compression.value)
    produce_file(write_events(500), bootstrap_servers, topic, compression=compression)
    assert [json.loads(m.value())["value"] for m in read_topic(topic)] == list(range(500))


def test_limit(
    bootstrap_servers: str, make_topic: MakeTopic, read_topic: ReadTopic, tmp_path: Path
) -> None:
    """A limit sends that many events, the first ones, and looks at nothing behind them."""
    file = tmp_path / "a.jsonl"
    good = [f'{{"key":"a","time":{TIME_MS},"value":{i}}}' for i in range(10)]
    file.write_text("\n".join([*good[:5], "bad", *good[5:], "bad"]))
    topic = make_topic()
    assert produce_file(file, bootstrap_servers, topic, limit=5).sent == 5
    report = produce_file(file, bootstrap_servers, topic, limit=7, skip_bad=True)
    assert (report.sent, report.skipped) == (7, 1)
    values = [json.loads(message.value())["value"] for message in read_topic(topic)]
    assert values == [*range(5), *range(7)]


def test_rate_and_progress(
    bootstrap_servers: str, make_topic: MakeTopic, write_events: WriteEvents
) -> None:
    """A rate is not exceeded, and progress is told up to the last event."""
    told: list[tuple[int, int, int]] = []

    def on_progress(reader: Reader, events: int) -> None:
        told.append((reader.done, reader.total, events))

    report = produce_file(
        write_events(300), bootstrap_servers, make_topic(), rate=1_000, on_progress=on_progress
    )
    assert report.sent == 300
    assert report.events_per_s <= 1_000 / 0.8  # The last twentieth of a second goes at once.
    done, total, events = told[-1]
    assert (done, events) == (total, 300)


def test_bad_rows(
    bootstrap_servers: str, make_topic: MakeTopic, read_topic: ReadTopic, tmp_path: Path
) -> None:
    """A bad row stops the sending with its number and column; skipped, it is counted."""
    file = tmp_path / "a.csv"
    file.write_text(f"key,time,value\na,{TIME_MS},1\n,{TIME_MS},2\nc,never,3\nd,{TIME_MS},4\ne,1\n")
    topic = make_topic()
    with pytest.raises(SlidestatError, match=r"row 3: key \(the key\) is missing") as raised:
        produce_file(file, bootstrap_servers, topic)
    assert "--skip-bad" in raised.value.advice
    assert read_topic(topic) == []
    report = produce_file(file, bootstrap_servers, topic, skip_bad=True)
    assert (report.sent, report.skipped) == (2, 3)
    assert report.first_skipped == "row 3: key (the key) is missing"
    assert Counter(m.key() for m in read_topic(topic)) == {b"a": 1, b"d": 1}


def test_raw_lines(
    bootstrap_servers: str, make_topic: MakeTopic, read_topic: ReadTopic, tmp_path: Path
) -> None:
    """Raw lines arrive byte for byte, with a key where one can be found."""
    lines = [b'{"k":"a"}', b"not json", b"\xff\x00", b'{"k":"b"} ', b"x" * 900_000]
    file = tmp_path / "a.jsonl"
    file.write_bytes(b"\n".join(lines) + b"\n")
    topic = make_topic()
    report = produce_file(file, bootstrap_servers, topic, columns=Columns("k"), raw=True)
    messages = read_topic(topic)
    assert [message.value() for message in messages] == lines
    assert [message.key() for message in messages] == [b"a", None, None, b"b", None]
    assert report.sent == len(lines)
    assert report.unkeyed == 3
    csv = tmp_path / "a.csv"
    csv.write_text("key,time,value\n")
    with pytest.raises(SlidestatError, match="only JSON lines"):
        produce_file(csv, bootstrap_servers, topic, raw=True)


def test_a_key_that_no_line_has_is_no_silence(
    make_topic: MakeTopic, read_topic: ReadTopic, tmp_path: Path, run_cli: RunCli
) -> None:
    """A path that is nowhere is refused, and nothing is sent; a line without a key is told."""
    lines = [f'{{"id.orig_h":"h{i}","ts":{TIME_MS + i}}}' for i in range(20)]
    file = tmp_path / "dns.jsonl"
    file.write_text("\n".join(["odd", *lines]))
    topic = make_topic(partitions=2)
    run = run_cli("produce", str(file), "--topic", topic, "--raw", "--key", "id.orig_h")
    assert run.returncode == 2
    assert "None of the first 21 lines" in run.stderr
    assert "'id.orig_h', 'ts'" in run.stderr
    assert read_topic(topic) == []
    run = run_cli("produce", str(file), "--topic", topic, "--raw", "--key", '["id.orig_h"]')
    assert run.returncode == 0
    assert "1 line went without a key" in run.stdout
    assert Counter(m.key() for m in read_topic(topic) if m.key()) == {
        b"h%d" % i: 1 for i in range(20)
    }
    run = run_cli("produce", str(file), "--topic", topic, "--raw", "--json")
    assert run.returncode == 0
    assert json.loads(run.stdout)["unkeyed"] == 21


def test_lines_wait_for_the_first_key(
    make_topic: MakeTopic, read_topic: ReadTopic, run_cli: RunCli
) -> None:
    """A stream may begin with lines that have none: they are sent with the first that has."""
    topic = make_topic()
    lines = ["{}"] * 5 + ['{"k":"a"}'] + ["{}"]
    run = run_cli("produce", "-", "--topic", topic, "--raw", "--key", "k", stdin="\n".join(lines))
    assert run.returncode == 0
    assert [m.value().decode() for m in read_topic(topic)] == lines


def test_records_that_the_broker_refuses(
    bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path, run_cli: RunCli
) -> None:
    """A refused record is counted as failed with the broker's reason, and the exit code says so."""
    topic = make_topic(config={"max.message.bytes": "2000"})
    file = tmp_path / "a.jsonl"
    file.write_text('{"key":"' + "x" * 5_000 + '"}\n')
    report = produce_file(file, bootstrap_servers, topic, raw=True, compression=Compression.NONE)
    assert (report.sent, report.failed) == (0, 1)
    assert report.first_failure is not None
    assert "too large" in report.first_failure.lower()
    run = run_cli("produce", str(file), "--topic", topic, "--raw", "--compression", "none")
    assert run.returncode == 2
    assert "1 events were not acknowledged" in run.stderr
    assert "Traceback" not in run.stderr


def test_empty_and_missing(
    bootstrap_servers: str, topic_name: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """A file without rows, and a topic that is not there, each say so."""
    file = tmp_path / "a.csv"
    file.write_text("key,time,value\n")
    with pytest.raises(SlidestatError, match="There is no topic"):
        produce_file(file, bootstrap_servers, topic_name)
    with pytest.raises(SlidestatError, match="has no events"):
        produce_file(file, bootstrap_servers, make_topic())


def test_many_events_pass_a_small_queue(
    bootstrap_servers: str, make_topic: MakeTopic, read_topic: ReadTopic, write_events: WriteEvents
) -> None:
    """More events than the client's queue holds wait for room, and none is lost."""
    topic = make_topic(partitions=2)
    report = produce_file(write_events(250_000), bootstrap_servers, topic)
    assert report.sent == 250_000
    assert len({message.value() for message in read_topic(topic)}) == 250_000


@pytest.mark.skipif(not NASA.exists(), reason=f"no {NASA.name} beside the project")
def test_a_day_of_a_web_server(
    bootstrap_servers: str, make_topic: MakeTopic, read_topic: ReadTopic
) -> None:
    """A real compressed log arrives whole, keyed by its 2,000 hosts."""
    topic = make_topic(partitions=4)
    columns = Columns("host", "time", "bytes", TimeUnit.SECONDS)
    assert produce_file(NASA, bootstrap_servers, topic, columns=columns).sent == 30_969
    times = [message.timestamp()[1] for message in read_topic(topic)]
    assert len(times) == 30_969
    assert min(times) == 807_256_800_000


def test_senders_do_not_disturb_each_other(
    bootstrap_servers: str, make_topic: MakeTopic, read_topic: ReadTopic, write_events: WriteEvents
) -> None:
    """Two producers at once, in one process, both deliver everything."""
    topic, file = make_topic(partitions=2), write_events(2_000)
    senders = [
        threading.Thread(target=produce_file, args=(file, bootstrap_servers, topic))
        for _ in range(2)
    ]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    assert set(Counter(m.value() for m in read_topic(topic)).values()) == {2}


@pytest.mark.parametrize(("value", "told"), [("-1", True), ("1", False)])
def test_values_that_a_sum_refuses_are_told(
    value: str, told: bool, tmp_path: Path, make_topic: MakeTopic, run_cli: RunCli
) -> None:
    """They are sent, for other statistics take them; it is said that they are there."""
    (tmp_path / "x.csv").write_text(f"key,time,value\na,978307200000,{value}\n")
    run = run_cli("produce", str(tmp_path / "x.csv"), "--topic", make_topic())
    assert run.returncode == 0
    assert ("1 value below 0: a topology with a sum" in run.stdout) == told


def test_values_that_are_no_numbers_are_told(
    tmp_path: Path, make_topic: MakeTopic, read_topic: ReadTopic, run_cli: RunCli
) -> None:
    """They are sent as texts; the first is named by its row."""
    topic = make_topic()
    (tmp_path / "x.csv").write_text(
        f"key,time,value,zip\na,{TIME_MS},9007199254740993,02134\nb,{TIME_MS},n/a,10001\n"
    )
    run = run_cli("produce", str(tmp_path / "x.csv"), "--topic", topic, "--value", "value")
    assert run.returncode == 0
    assert '1 value no number, the first in row 3: "n/a"' in run.stdout
    run = run_cli("produce", str(tmp_path / "x.csv"), "--topic", topic, "--text", "zip")
    assert run.returncode == 0
    assert [message.value().decode() for message in read_topic(topic)] == [
        f'{{"key":"a","time":{TIME_MS},"value":9007199254740993}}',
        f'{{"key":"b","time":{TIME_MS},"value":"n/a"}}',
        f'{{"key":"a","time":{TIME_MS},"zip":"02134"}}',
        f'{{"key":"b","time":{TIME_MS},"zip":"10001"}}',
    ]


def test_nothing_sent_is_no_success(
    tmp_path: Path, make_topic: MakeTopic, read_topic: ReadTopic, run_cli: RunCli
) -> None:
    """A file whose rows are all bad is an error with --skip-bad, too; so are blank lines."""
    topic = make_topic()
    (tmp_path / "x.csv").write_text("key,time,value\na,soon,1\nb,late,2\n")
    run = run_cli("produce", str(tmp_path / "x.csv"), "--topic", topic, "--skip-bad")
    assert run.returncode == 2
    assert "No row of" in run.stderr
    assert "row 2: time (the time) is 'soon'" in run.stderr
    (tmp_path / "x.jsonl").write_text("\r\n\r\n")
    run = run_cli("produce", str(tmp_path / "x.jsonl"), "--topic", topic, "--raw")
    assert run.returncode == 2
    assert "has no events" in run.stderr
    assert read_topic(topic) == []


def test_blank_lines_are_no_records(
    bootstrap_servers: str, make_topic: MakeTopic, read_topic: ReadTopic, tmp_path: Path
) -> None:
    """Nor is a byte order mark a part of one."""
    file = tmp_path / "a.jsonl"
    file.write_bytes(b'\xef\xbb\xbf{"k":"a"}\r\n\r\n{"k":"b"}\r\n  \r\n')
    topic = make_topic()
    produce_file(file, bootstrap_servers, topic, columns=Columns("k"), raw=True)
    assert [m.value() for m in read_topic(topic)] == [b'{"k":"a"}\r', b'{"k":"b"}\r']
    assert [m.key() for m in read_topic(topic)] == [b"a", b"b"]


def test_a_cell_that_is_not_utf8_is_a_bad_row(
    bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """In any column that is sent; its field was once left out in silence."""
    (tmp_path / "a.csv").write_bytes(b"key,time,city\na,%d,Z\xfcrich\n" % TIME_MS)
    with pytest.raises(SlidestatError, match=r"row 2: city is b'Z\\xfcrich', which is not UTF-8"):
        produce_file(
            tmp_path / "a.csv", bootstrap_servers, make_topic(), columns=Columns(more=("city",))
        )


def test_what_was_sent_before_a_file_broke_is_counted(
    bootstrap_servers: str, make_topic: MakeTopic, read_topic: ReadTopic, tmp_path: Path
) -> None:
    """By a quote that is never closed, far behind: a file that is sent again sends them twice."""
    file = tmp_path / "a.csv"
    file.write_text("key,time,value\n" + f"a,{TIME_MS},1\n" * 60_000 + f'b,{TIME_MS},"2\n')
    topic = make_topic()
    with pytest.raises(SlidestatError, match=r"quote that opens in line 60002 is never") as raised:
        produce_file(file, bootstrap_servers, topic)
    # Arrow reads ahead: how many rows have come before the error is not the same each time.
    sent = len(read_topic(topic))
    told = f"{sent:,} events before it are sent"
    assert (told in raised.value.advice) == (sent > 0)
