"""Send a file's events to a topic, in the file's order, with their event times as timestamps."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import cycle
from pathlib import Path

import msgspec
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from slidestat.errors import SlidestatError
from slidestat.kafka.connection import require_topic
from slidestat.kafka.producer import REFUSED_TIMES
from slidestat.kafka.settings import client_config
from slidestat.options import COMPRESSION, Compression
from slidestat.produce.cells import NOT_JSON
from slidestat.produce.events import Columns, Records, encode, raw_records
from slidestat.produce.files import STANDARD_INPUT, EventFile, Format, event_file
from slidestat.produce.readers import Reader, Rows, no_events

# Called after each batch with how far the reading is and how many events have been handed over.
OnProgress = Callable[[Reader, int], None]

# A paced producer hands over this often: short enough to look even, long enough to be cheap.
_PACE_S = 0.05

# After this many lines without the requested key, and none with it, nothing is sent.
_KEYLESS_LINES = 10_000
_FIELDS_SHOWN = 20

# Where the partitioner puts the record's key.
_BY_KEY = -1


@dataclass(kw_only=True)
class _Counts:
    """The counts of what was read, whether it is sent or left out."""

    skipped: int = 0
    first_skipped: str | None = None
    negative: int = 0
    unkeyed: int = 0
    zoneless: int = 0
    valueless: int = 0
    non_numbers: int = 0
    first_non_number: str | None = None

    def add(self, records: Records) -> None:
        """Add those of some records."""
        if records.first_bad is not None:
            self.skipped += records.bad
            self.first_skipped = self.first_skipped or str(records.first_bad)
        self.negative += records.negative
        self.unkeyed += records.unkeyed
        self.zoneless += records.zoneless
        self.valueless += records.valueless
        self.non_numbers += records.non_numbers
        if self.first_non_number is None and records.first_non_number is not None:
            self.first_non_number = str(records.first_non_number)


@dataclass(frozen=True, kw_only=True)
class ProduceReport:
    """The counts of a run. `sent` events were acknowledged, `failed` were not (`first_failure` says
    why, and `is_time_refused` whether for its time), `skipped` rows were no events (`first_skipped`
    says why). `negative` events have a value below 0, `non_numbers` one that is no number
    (`first_non_number` is the first), `valueless` none, and `zoneless` a time without a zone, which
    was taken for UTC; of lines sent raw, `unkeyed` went without a key.
    """

    topic: str
    sent: int
    skipped: int
    first_skipped: str | None
    failed: int
    first_failure: str | None
    is_time_refused: bool
    seconds: float
    negative: int
    unkeyed: int
    zoneless: int
    valueless: int
    non_numbers: int
    first_non_number: str | None

    @property
    def events_per_s(self) -> float:
        return self.sent / self.seconds if self.seconds > 0 else 0.0


def produce_file(
    file: str | Path,
    bootstrap: str,
    topic: str,
    *,
    columns: Columns | None = None,
    limit: int | None = None,
    rate: float | None = None,
    compression: Compression = COMPRESSION,
    skip_bad: bool = False,
    raw: bool = False,
    must_have_key: bool = False,
    spread: Collection[str] = (),
    on_progress: OnProgress | None = None,
) -> ProduceReport:
    """Send the events of a file (`-`: standard input), at most `limit`, at most `rate` a second.

    With `raw`, each line of a JSON lines file that is not blank is sent as it is, nothing checked,
    the time of sending for a timestamp, and `columns.key` for a Kafka key where it can be found; if
    it `must_have_key`, nothing is sent of a file whose first lines all lack it. Events of the keys
    in `spread` go to all partitions in turn, for a topology that publishes them: each of them may
    be more than one worker can take. Raises SlidestatError for a file that cannot be read or has no
    event, a missing topic, or, unless `skip_bad`, a row that is no event. Memory is bounded
    whatever the file's length.
    """
    source = event_file(file)
    columns = columns or Columns()
    if raw:
        _require_lines(source, columns)
    partitions = require_topic(bootstrap, topic)
    reader = Reader(source)
    batches = _raw(reader, columns, limit) if raw else _events(reader, columns, limit)
    if raw and must_have_key:
        batches = _if_any_has_key(batches, source.name, columns.key)
    sender = _Sender(bootstrap, topic, compression, rate, partitions, spread)
    counts = _Counts()
    try:
        for records in batches:
            if records.first_bad is not None and not skip_bad:
                raise SlidestatError(
                    f"{source.name}, {records.first_bad}.",
                    "Fix the row, or leave such rows out with --skip-bad.",
                )
            sender.send(records)
            counts.add(records)
            if on_progress is not None:
                on_progress(reader, sender.handed_over)
            if sender.failed:
                break
        sender.flush()
    except SlidestatError as error:
        sender.flush()
        if not sender.handed_over:
            raise
        raise SlidestatError(
            error.message, f"{error.advice} {sender.sent:,} events before it are sent."
        ) from error
    finally:
        sender.close()
    return ProduceReport(
        topic=topic,
        sent=sender.sent,
        failed=sender.failed,
        first_failure=sender.first_failure,
        is_time_refused=sender.is_time_refused,
        seconds=sender.seconds,
        **asdict(counts),
    )


def _require_lines(source: EventFile, columns: Columns) -> None:
    """Raise SlidestatError for what cannot be sent raw."""
    if source.format is not Format.JSON_LINES:
        raise SlidestatError(
            f"{source.name} is {source.format}: only JSON lines can be sent raw.",
            "Leave --raw out, or give a .jsonl file.",
        )
    if columns.more or columns.texts:
        raise SlidestatError(
            "Lines that are sent raw have all their fields already.",
            "Leave --with and --text or --raw out.",
        )


def _events(reader: Reader, columns: Columns, limit: int | None) -> Iterator[Records]:
    good = bad = 0
    first_bad = None
    for rows in reader.batches(columns.names):
        wanted = rows if limit is None else _head(rows, limit - good)
        records = encode(wanted, columns)
        good += len(records.values)
        bad += records.bad
        first_bad = first_bad or records.first_bad
        yield records
        if good == limit:
            return
    if bad and not good:
        raise SlidestatError(
            f"No row of {reader.file.name} is an event: nothing is sent. {first_bad}.",
            "Say which columns to take with --key, --time and --value, or what times count with"
            " --time-unit.",
        )
    _require_any(reader, good)


def _raw(reader: Reader, columns: Columns, limit: int | None) -> Iterator[Records]:
    seen = 0
    for _, lines in reader.lines():
        wanted = [line for line in lines if line.strip()]
        if limit is not None:
            wanted = wanted[: limit - seen]
        seen += len(wanted)
        yield raw_records(wanted, columns.key)
        if seen == limit:
            return
    _require_any(reader, seen)


def _require_any(reader: Reader, count: int) -> None:
    """Raise SlidestatError for a file without rows; standard input may have none."""
    if not count and reader.file.name != STANDARD_INPUT:
        raise no_events(reader.file)


def _if_any_has_key(batches: Iterator[Records], name: str, key: str) -> Iterator[Records]:
    """Yield all batches, once one of them has a key; raises SlidestatError if none of many records
    has one: then the path is wrong, and the records would go to any partition.
    """
    held: list[Records] = []
    lines = 0
    for records in batches:
        held.append(records)
        lines += len(records.values)
        if records.unkeyed < len(records.values):
            yield from held
            yield from batches
            return
        if lines >= _KEYLESS_LINES:
            break
    if lines:
        raise SlidestatError(
            f"None of the first {lines:,} lines of {name} has a key at {key!r}: nothing is sent.",
            f"--key is the path of a text or a whole number{_fields_text(held)}; a name that has a"
            """ dot is written '["id.orig_h"]'. Without --key, lines may go without a key.""",
        )


def _fields_text(batches: Iterable[Records]) -> str:
    """Return the fields of the first line that is an object."""
    for line in (line for records in batches for line in records.values):
        try:
            fields = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
        except NOT_JSON:
            continue
        return f", and there are {', '.join(map(repr, list(fields)[:_FIELDS_SHOWN]))}"
    return ""


def _head(rows: Rows, count: int) -> Rows:
    """Return the first `count` rows; malformed ones behind them are not looked at."""
    if count >= len(rows.numbers):
        return rows
    last = rows.numbers[count - 1] if count else 0
    return Rows(
        rows.numbers[:count],
        {name: cells.head(count) for name, cells in rows.columns.items()},
        [bad for bad in rows.malformed if bad.row <= last],
    )


class _Sender:
    """A producer that counts what was acknowledged and stops at what was not."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        compression: Compression,
        rate: float | None,
        partitions: int,
        spread: Collection[str],
    ) -> None:
        self.handed_over = 0
        self.failed = 0
        self.first_failure: str | None = None
        self.is_time_refused = False
        self._topic = topic
        self._rate = rate
        self._spread = {key.encode() for key in spread}
        self._turns = cycle(range(partitions))
        self._started = time.monotonic()
        self._stopped: float | None = None
        self._producer = Producer(
            client_config(bootstrap)
            | {
                "enable.idempotence": True,
                # Java's and Faust's clients place keys so; librdkafka's own default would put a key
                # on another partition, and split its history.
                "partitioner": "murmur2_random",
                "compression.type": compression.value,
                "linger.ms": 20,
                "batch.num.messages": 50_000,
                "queue.buffering.max.messages": 200_000,
                "queue.buffering.max.kbytes": 262_144,
                # The broker's limit decides, not the client's.
                "message.max.bytes": 64 << 20,
                "message.timeout.ms": 60_000,
                "on_delivery": self._delivered,
                "delivery.report.only.error": True,
            }
        )

    @property
    def sent(self) -> int:
        return self.handed_over - self.failed

    @property
    def seconds(self) -> float:
        return (self._stopped or time.monotonic()) - self._started

    def send(self, records: Records) -> None:
        """Hand records over, waiting while the queue is full; returns early at a failure."""
        step = max(1, int(self._rate * _PACE_S)) if self._rate else max(1, len(records.values))
        for start in range(0, len(records.values), step):
            self._wait_for_pace()
            rows = zip(
                records.keys[start : start + step],
                records.values[start : start + step],
                records.timestamps_ms[start : start + step],
                strict=True,
            )
            for key, value, timestamp_ms in rows:
                if not self._hand_over(key, value, timestamp_ms):
                    return
            self._producer.poll(0)

    def flush(self) -> None:
        """Return when each event handed over is acknowledged or has failed."""
        while not self.failed and self._producer.flush(1.0):
            pass
        self._stopped = time.monotonic()

    def close(self) -> None:
        """Drop what is still queued: after a flush nothing is, after a failure it is in vain."""
        self._producer.purge()
        self._producer.flush(5.0)

    def _hand_over(self, key: bytes | None, value: bytes, timestamp_ms: int) -> bool:
        partition = next(self._turns) if key in self._spread else _BY_KEY
        while not self.failed:
            try:
                self._producer.produce(self._topic, value, key, partition, timestamp=timestamp_ms)
                self.handed_over += 1
                return True
            except BufferError:
                self._producer.poll(0.1)
            except KafkaException as error:
                self.handed_over += 1
                self._failed(error.args[0])
        return False

    def _wait_for_pace(self) -> None:
        if self._rate:
            due = self._started + self.handed_over / self._rate
            while not self.failed and (wait_s := due - time.monotonic()) > 0:
                self._producer.poll(min(wait_s, _PACE_S))

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._failed(error)

    def _failed(self, error: KafkaError) -> None:
        self.failed += 1
        if self.first_failure is None:
            self.first_failure = str(error.str())
            self.is_time_refused = error.code() in REFUSED_TIMES
