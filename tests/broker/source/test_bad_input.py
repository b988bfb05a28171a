"""Whatever a producer sends, the worker goes on, and every record is accounted for."""

import json

from slidestat.schemas.dead_letter import DeadLetterHeaders, Reason
from tests.broker.conftest import BODY, MakeStage
from tests.broker.workers import distinct, events, produce

TIME = 1_700_000_000_000
MEGABYTE = 2**20


def event(**fields: object) -> bytes:
    return json.dumps({"key": "k1", "time": TIME, "value": 1.5, **fields}).encode()


BAD: dict[str, tuple[bytes | None, Reason]] = {
    "no value": (None, Reason.NULL_RECORD),
    "empty": (b"", Reason.NOT_JSON),
    "not JSON": (b"hello", Reason.NOT_JSON),
    "cut off": (event()[:-3], Reason.NOT_JSON),
    "not UTF-8": (b'{"key":"\xff\xfe","time":1700000000000,"value":1}', Reason.NOT_JSON),
    "nested deeply": (b'{"key":"k1","more":' + b"[" * 100_000, Reason.NOT_JSON),
    "an array": (b"[1, 2]", Reason.WRONG_TYPE),
    "a number": (b"7", Reason.WRONG_TYPE),
    "null": (b"null", Reason.WRONG_TYPE),
    "key a fraction": (event(key=7.5), Reason.WRONG_TYPE),
    "time a text": (event(time="2023-11-14"), Reason.BAD_TIME),
    "value a text": (event(value="1.5"), Reason.WRONG_TYPE),
    "value a truth": (event(value=True), Reason.WRONG_TYPE),
    "no key": (b'{"time":1700000000000,"value":1}', Reason.MISSING_FIELD),
    "no time": (b'{"key":"k1","value":1}', Reason.MISSING_FIELD),
    "key empty": (event(key=""), Reason.BAD_KEY),
    "key too long": (event(key="k" * 257), Reason.BAD_KEY),
    "not a number": (event(value=float("nan")), Reason.NOT_JSON),
    "infinity": (event(value=float("inf")), Reason.NOT_JSON),
    "minus infinity": (event(value=float("-inf")), Reason.NOT_JSON),
    "beyond floats": (b'{"key":"k1","time":1700000000000,"value":1e999}', Reason.VALUE_TOO_LARGE),
    "negative": (event(value=-0.001), Reason.NEGATIVE_VALUE),
    "too large": (event(value=1e300), Reason.VALUE_TOO_LARGE),
    "year 1": (event(time=-62_135_596_800_000), Reason.BAD_TIME),
    "year 9999": (event(time=253_402_300_799_000), Reason.BAD_TIME),
    "seconds": (event(time=TIME // 1000), Reason.BAD_TIME),
    "microseconds": (event(time=TIME * 1000), Reason.BAD_TIME),
    "a huge integer": (b'{"key":"k1","time":%d,"value":1}' % 10**40, Reason.BAD_TIME),
    "a megabyte": (event(key="k" * (MEGABYTE - 100)), Reason.BAD_KEY),
    "a megabyte of no JSON": (b"x" * MEGABYTE, Reason.NOT_JSON),
}


def test_bad_records_become_dead_letters(make_stage: MakeStage) -> None:
    """Each kind of bad record, among good ones and in batches of their own, lands on the
    dead-letter topic once with its reason, position, original key and bytes; good records of a
    megabyte are counted; records in = counted + dead, exactly.
    """
    body = BODY + '    tombstones="dead-letter",\n'
    stage = make_stage(partitions=2, body=body, config={"max.message.bytes": str(4 * MEGABYTE)})
    source = stage.topology.source
    good = events(2_000)
    mixed: list[tuple[bytes | None, bytes | None]] = []
    for i, (value, _) in enumerate(BAD.values()):
        mixed += [*good[i * 20 : i * 20 + 20], (f"bad-{i}".encode() if i % 2 else None, value)]
    mixed += good[len(BAD) * 20 :]
    # They count, and only a sum leaves them out.
    newest = TIME + 20_500
    mixed.append((b"k1", event(time=newest, value=None)))
    mixed.append((b"k1", b'{"key":"k1","time":%d}' % newest))
    mixed.append((b"large", event(time=TIME + 20_500, note="n" * MEGABYTE)))
    produce(stage.bootstrap, source, mixed, partition=0)
    # A partition with nothing but bad records is read through as well.
    produce(stage.bootstrap, source, [(b"bad", value) for value, _ in BAD.values()], partition=1)
    stage.drain()
    stage.check()

    records = stage.read(source)
    letters = stage.dead_letters()
    bad_values = {value for value, _ in BAD.values()}
    reasons = [reason for _, reason in BAD.values()]
    for partition in (0, 1):
        bad = [record for record in records[partition] if record.value in bad_values]
        assert len(letters[partition]) == len(bad) == len(BAD)
        for letter, record, kind, reason in zip(letters[partition], bad, BAD, reasons, strict=True):
            assert letter.value == record.value, kind
            assert letter.timestamp == record.timestamp, kind
            assert letter.headers.get("original_key") == record.key, kind
            headers = DeadLetterHeaders.decode(letter.headers.items())
            assert headers.reason is reason, kind
            assert headers.detail, kind
            assert (headers.topic, headers.partition) == (source, partition), kind
            assert headers.offset == record.offset, kind
            assert headers.topology == stage.name, kind
    counters = stage.counters()
    assert counters.read == len(mixed) + len(BAD)
    assert counters.dead == 2 * len(BAD)
    assert counters.counted == counters.read - counters.dead
    assert counters.left_out == {"sum": 2}


def test_records_larger_than_a_letter_are_kept_in_part(make_stage: MakeStage) -> None:
    """A batch that is compressed may hold a record larger than any topic takes: good ones are
    counted; of bad and late ones the letter has the beginning, of value and key, and how many bytes
    there were. A letter that its topic takes whole is whole.
    """
    stage = make_stage(partitions=1, body=BODY + '    lateness="2s",\n')
    source = stage.topology.source
    blank, whole = b" " * (9 * MEGABYTE), b"x" * (7 * MEGABYTE)
    records = [
        (b"k", event(time=TIME + 60_000)),
        (b"k", event(time=TIME + 60_000) + blank),
        (b"k", blank),
        (b"k" * (9 * MEGABYTE), b"not JSON"),
        (None, event() + blank),
        (b"k", whole),
        # Past the watermark of all before it.
        *[(b"k", event(time=TIME + 90_000))] * 9,
    ]
    large = {"compression.type": "zstd", "message.max.bytes": 16 * MEGABYTE, "batch.size": 1}
    produce(stage.bootstrap, source, records, partition=0, **large)
    stage.drain()

    bad, key, good = stage.dead_letters()[0]
    (late,) = stage.late()[0]
    kept, size = 64 * 2**10, str(9 * MEGABYTE).encode()
    assert (bad.value, bad.headers["original_key"]) == (blank[:kept], b"k")
    assert (key.value, key.headers["original_key"]) == (b"not JSON", b"k" * kept)
    assert late.value == (event() + blank)[:kept]
    assert good.value == whole
    assert bad.headers["original_value_bytes"] == key.headers["original_key_bytes"] == size
    assert "original_key_bytes" not in bad.headers
    assert "original_value_bytes" not in good.headers
    for letter, offset, reason in zip(
        (bad, key, late, good),
        (2, 3, 4, 5),
        (Reason.NOT_JSON, Reason.NOT_JSON, Reason.LATE, Reason.NOT_JSON),
        strict=True,
    ):
        headers = DeadLetterHeaders.decode(letter.headers.items())
        assert (headers.reason, headers.offset) == (reason, offset)
    counters = stage.counters()
    assert (counters.dead, counters.late, counters.counted) == (3, 1, counters.read - 4)


def test_negative_values_are_good_where_nothing_is_summed(make_stage: MakeStage) -> None:
    """Without a sum a value may be negative; it is counted."""
    body = BODY.replace(" Sum(epsilon=0.1)", "")
    stage = make_stage(partitions=1, body=body)
    produce(stage.bootstrap, stage.topology.source, [(b"k", event(value=-3))] * 10)
    stage.drain()
    assert stage.counters().counted == 10


def test_late_records_go_to_the_late_topic(make_stage: MakeStage) -> None:
    """A record behind the watermark lands on the late topic with its bytes and how late it was."""
    stage = make_stage(partitions=1, body=BODY + '    lateness="2s",\n')
    times = [TIME + 60_000, TIME + 60_000, TIME + 58_000, TIME + 57_999, TIME, TIME + 61_000]
    produce(stage.bootstrap, stage.topology.source, [(b"k", event(time=t)) for t in times])
    # Past the watermark of all before it, so that nothing above still waits.
    produce(stage.bootstrap, stage.topology.source, [(b"k", event(time=TIME + 90_000))] * 9)
    stage.drain()
    late = stage.late()[0]
    assert [letter.value for letter in late] == [event(time=TIME + 57_999), event(time=TIME)]
    for letter, offset, late_by in zip(late, (3, 4), (1, 58_000), strict=True):
        headers = DeadLetterHeaders.decode(letter.headers.items())
        assert headers.reason is Reason.LATE
        assert headers.detail == f"{late_by} ms behind the watermark"
        assert headers.offset == offset
    assert stage.counters().late == 2
    assert not stage.dead_letters()[0]
    stage.check()


def test_ten_thousand_among_a_million(make_stage: MakeStage) -> None:
    """Of a million records 10,000 are malformed: those are on the dead-letter topic, each once and
    whole, and all others are counted.
    """
    stage = make_stage(partitions=2)
    bad = [value for value, _ in BAD.values() if value is not None and len(value) < 1_000]
    good = events(99_000)
    sent: list[tuple[bytes | None, bytes | None]] = []
    for part in range(10):
        sent += good
        sent += [(b"bad%d" % i, bad[i % len(bad)]) for i in range(1_000)]
        # One batch after another, so that bad records lie among the good ones of each.
        good = events(99_000, start=99_000 * (part + 1))
    produce(stage.bootstrap, stage.topology.source, sent)
    stage.drain()
    counters = stage.counters()
    assert counters.read == 1_000_000
    assert (counters.counted, counters.dead, counters.late) == (990_000, 10_000, 0)
    letters = distinct(stage.dead_letters())
    assert len(letters) == 10_000
    assert set(letters.values()) == set(bad)
