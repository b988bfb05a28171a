"""`slidestat dlq`: letters are counted, shown, corrected and sent again, each once."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer

from slidestat.admin import letters
from slidestat.admin.topics import create_topic
from slidestat.kafka.read.scan import reading, scan
from tests.broker.conftest import BODY, MakeStage
from tests.broker.workers import Stage, events, produce, undisturbed

BAD = [
    (b"k1", b"not JSON"),
    (b"k2", b'{"key":"k2","value":1}'),
    (b"k3", b'{"key":"k3","time":"noon","value":1}'),
    (None, b'\xff\xfe{"key"'),
    (b"k5", None),
    (b"k6", b'{"key":"k6\x1b[2J","time":1700000001000,"value":"\\u0007"}'),
]


HEADERS = [("trace", b"7f"), ("topic", b"mine"), ("nothing", None), ("trace", b"80")]


def produce_with_headers(
    stage: Stage, key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    producer = Producer({"bootstrap.servers": stage.bootstrap})
    producer.produce(stage.topology.source, value, key, 0, headers=list(headers))
    assert producer.flush(60) == 0


def dlq(stage: Stage, *arguments: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    command, *rest = arguments
    return subprocess.run(
        [
            *(sys.executable, "-m", "slidestat", "dlq", command, str(stage.file), *rest),
            *("--bootstrap", stage.bootstrap),
        ],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3] / "app")},
        check=False,
    )


def said(stage: Stage, *arguments: str, stdin: str = "") -> str:
    run = dlq(stage, *arguments, stdin=stdin)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_letters_from_end_to_end(make_stage: MakeStage) -> None:
    """Letters are told by reason, with headers; corrected ones are sent once, and counted."""
    stage = make_stage(partitions=1, body=BODY + '    tombstones="dead-letter",\n')
    source = stage.topology.source
    produce(stage.bootstrap, source, events(500))
    produce_with_headers(stage, *BAD[0], HEADERS)
    produce(stage.bootstrap, stage.topology.source, BAD[1:], partition=0)
    stage.drain()
    read_before = stage.counters()
    assert read_before.dead == len(BAD)

    counted = said(stage, "count")
    assert f"{stage.name}-dead-letters: {len(BAD)} open letters" in counted
    reasons = {
        line["reason"]: line["letters"]
        for line in map(json.loads, said(stage, "count", "--json").splitlines())
    }
    assert sum(reasons.values()) == len(BAD)
    shown = said(stage, "show")
    assert shown.count("\n    value  ") == len(BAD)
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert said(stage, "show", "--limit", "2").endswith("to be corrected.\n")
    only = said(stage, "show", "--reason", "missing-field")
    assert only.count("\n    value  ") == reasons["missing-field"]

    letters = [json.loads(line) for line in said(stage, "show", "--json").splitlines()]
    assert [letter["offset"] for letter in letters] == list(range(500, 500 + len(BAD)))
    named = [(header["name"], header.get("value")) for header in letters[0]["headers"]]
    assert named == [("trace", "7f"), ("topic", "mine"), ("nothing", None), ("trace", "80")]
    assert "\n    header trace = 7f\n" in shown
    corrected = []
    for letter in letters[:4]:
        letter.pop("value_base64", None)
        letter["value"] = json.dumps({"key": "corrected", "time": 1_700_000_005_000, "value": 2})
        corrected.append(letter)
    lines = "\n".join(map(json.dumps, corrected))
    told = said(stage, "send", "-", stdin=lines)
    assert "4 records sent" in told
    assert "of them" not in told  # None is as it was, all are there.
    assert f"{len(BAD) - 4} open letters" in said(stage, "count")
    assert "0 records sent" in said(stage, "send", "-", stdin=lines)

    again = stage.read(stage.topology.source)[0][-4]
    assert again.headers == {**dict(HEADERS), "sent_again_from": f"{source}/0/500".encode()}

    stage.drain()
    counters = stage.counters()
    assert counters.read == read_before.read + 4
    assert (counters.counted, counters.dead) == (read_before.counted + 4, len(BAD))
    expected = undisturbed(stage.topology, stage.read(stage.topology.source))
    assert stage.emissions() == expected.emissions


def test_letters_that_cannot_be_sent(make_stage: MakeStage, tmp_path: Path) -> None:
    """Lines that are no letters, letters of another source, broken base64, and the beginning of a
    record that was too large for a letter, which is shown as such: nothing is sent.
    """
    stage = make_stage(partitions=1, body=BODY + '    tombstones="dead-letter",\n')
    produce(stage.bootstrap, stage.topology.source, BAD, partition=0)
    size = 9 * 2**20
    settings = {"compression.type": "zstd", "message.max.bytes": 2 * size}
    produce(stage.bootstrap, stage.topology.source, [(b"k", b" " * size)], 0, **settings)
    stage.drain()
    assert "characters more (the beginning of 9,437,184 bytes)" in said(stage, "show")
    letters = [json.loads(line) for line in said(stage, "show", "--json").splitlines()]
    good = json.dumps(letters[0])
    for line, told in [
        ("{", "Line 2 of - is no letter"),
        ("{}", "Line 2 of - is no letter"),
        (json.dumps(letters[1] | {"topic": "other"}), "is of the topic 'other'"),
        (json.dumps(letters[1] | {"value": None, "value_base64": "é"}), "is not base64"),
        (json.dumps(letters[1] | {"value": "{}", "value_base64": "e30="}), "base64 beside it"),
        (json.dumps(letters[1] | {"valeu": "{}"}), "unknown field `valeu`"),
        (json.dumps(letters[1] | {"partition": -1}), "`int` >= 0"),
        (json.dumps(letters[0] | {"value": "other", "value_base64": None}), "two corrections"),
        (json.dumps(letters[-1]), f"0/{len(BAD)} holds only the beginning of the record"),
    ]:
        run = dlq(stage, "send", "-", stdin=f"{good}\n{line}\n")
        assert run.returncode == 2
        assert told in run.stderr
        assert "Nothing was sent" in run.stderr
    missing = dlq(stage, "send", str(tmp_path / "none"))
    assert (missing.returncode, "cannot be read" in missing.stderr) == (2, True)
    assert f"{len(BAD) + 1} open letters" in said(stage, "count")
    assert f"{stage.name}-late: 0 open letters" in said(stage, "count", "--late")


def test_letters_as_they_were(make_stage: MakeStage) -> None:
    """They are sent, as the declaration may be another one by now, and it is said of how many they
    are; so it is of letters that are on another topic.
    """
    stage = make_stage(partitions=1, body=BODY)
    produce(stage.bootstrap, stage.topology.source, BAD[:1] * 3, partition=0)
    stage.drain()
    letters = [json.loads(line) for line in said(stage, "show", "--json").splitlines()]
    letters[0] |= {"value": "{}", "value_base64": None}
    lines = "\n".join(map(json.dumps, letters))
    told = said(stage, "send", "-", stdin="\ufeff" + lines)
    assert "3 records sent" in told
    assert "2 of them are as they were: they come back as letters" in told
    assert "of this topic" not in told
    elsewhere = said(stage, "send", "-", "--late", stdin=json.dumps(letters[1]))
    assert "1 of them are no letters of this topic" in elsewhere


def test_a_late_request_ends_no_other_transaction(
    make_stage: MakeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each transaction has a producer of its own (KIP-890), and none is begun before what a sender
    before has left open is over: a letter is sent with its mark, or neither is there.
    """
    stage = make_stage(partitions=1, body=BODY)
    topology = stage.topology
    source, letter_topic = topology.source, topology.dead_letter_topic
    for topic in (source, letter_topic):
        create_topic(stage.bootstrap, topic, 1, {})
    name = {
        "bootstrap.servers": stage.bootstrap,
        "transactional.id": f"slidestat-dlq-{letter_topic}",
    }
    before = Producer(name)
    before.init_transactions(60)
    before.begin_transaction()
    before.produce(source, b"a letter without its mark", partition=0)
    before.flush(60)
    monkeypatch.setattr(letters, "_IN_ONE_TRANSACTION", 1)
    two = [
        letters.Letter(
            topic=source,
            partition=0,
            offset=offset,
            reason="not-json",
            detail="",
            timestamp_ms=1,
            value="{}",
        )
        for offset in range(2)
    ]
    for sent in (letters.Sent(2, 0, unknown=2), letters.Sent(0, 2)):
        assert letters.send_again(stage.bootstrap, topology, letter_topic, two) == sent
    with pytest.raises(KafkaException):
        before.commit_transaction(60)
    with reading(stage.bootstrap, source) as consumer:
        assert [message.value() for message in scan(consumer, source, {0: 0})] == [b"{}"] * 2
