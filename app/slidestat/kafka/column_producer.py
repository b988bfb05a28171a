"""A producer for bulk writes that takes records by the column."""

import ctypes
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, files
from typing import Any, NamedTuple

import numba
import numba.experimental.function_type  # has kernels know functions as arguments
import numpy as np
import numpy.typing as npt
from confluent_kafka import KafkaError, KafkaException
from numba import types

from slidestat.engine.decoding.binary_column import BinaryColumn
from slidestat.engine.emissions.output_records import NO_RECORDS, OutputRecords
from slidestat.kafka.producer import (
    FEW_RECORDS,
    NOW_S,
    ROOM_CHECK_S,
    SETTINGS,
    BulkProducer,
    Watched,
    not_sent,
)
from slidestat.kafka.settings import broker_security, client_config
from slidestat.kernels.compile import (
    address_of,
    ahead,
    borrowing_kernel,
    callback_kernel,
    config,
    unlocked_kernel,
    wrong_code,
)
from slidestat.synopses.core.arrays import Integers

# librdkafka by its own interface (rdkafka.h), for records that lie in columns.
#
# Its Python client, which brings the library, takes records one by one as Python objects: 2
# microseconds each, where librdkafka itself takes half of one. Here kernels call it, and are called
# by it. All else is the client's: settings have the same names, errors are its errors.

carray: Any = numba.carray  # type: ignore[attr-defined]
typeof: Any = numba.typeof


_PACKAGE, _LIBRARY = "confluent-kafka", "librdkafka"
_PRODUCER, _COPY = 0, 2
_ERROR_BYTES = 512
# Fields of rd_kafka_vu_t: which of them it is, then up to 64 bytes.
_FIELD_WORDS, _HEADER_WORDS = 9, 4
_TOPIC, _PARTITION, _VALUE, _KEY, _OPAQUE = 2, 3, 4, 5, 6
_FLAGS, _TIMESTAMP, _HEADER = 7, 8, 9
# The first fields, which the kernel fills in: flags, key, value and timestamp.
_OF_RECORD = 4
# The layout of rd_kafka_message_t in words: its error, its offset, and the pointer given along with
# it.
_MESSAGE_WORDS, _ERROR, _OFFSET, _GIVEN = 9, 0, 7, 8
# For each partition that is written to: the offset behind its last record, and why one was refused.
_REPORT_WORDS, _END, _REFUSAL = 2, 0, 1
_MOST_PLACES = 65_536

_Address = ctypes.c_void_p
_OnDelivery = ctypes.CFUNCTYPE(None, _Address, _Address, _Address)
_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "rd_kafka_conf_new": (_Address, []),
    "rd_kafka_conf_set": (
        ctypes.c_int,
        [_Address, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t],
    ),
    "rd_kafka_conf_set_dr_msg_cb": (None, [_Address, _OnDelivery]),
    "rd_kafka_conf_set_opaque": (None, [_Address, _Address]),
    "rd_kafka_new": (_Address, [ctypes.c_int, _Address, ctypes.c_char_p, ctypes.c_size_t]),
    "rd_kafka_destroy": (None, [_Address]),
    "rd_kafka_topic_new": (_Address, [_Address, ctypes.c_char_p, _Address]),
    "rd_kafka_topic_destroy": (None, [_Address]),
    "rd_kafka_outq_len": (ctypes.c_int, [_Address]),
    "rd_kafka_poll": (ctypes.c_int, [_Address, ctypes.c_int]),
    "rd_kafka_flush": (ctypes.c_int, [_Address, ctypes.c_int]),
    "rd_kafka_error_code": (ctypes.c_int, [_Address]),
    "rd_kafka_error_destroy": (None, [_Address]),
    "rd_kafka_produceva": (_Address, [_Address, _Address, ctypes.c_size_t]),
}


class _ProduceVa(types.WrapperAddressProtocol):
    """The function rd_kafka_produceva, called at its address by kernels, and by Python."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def __wrapper_address__(self) -> int:
        return ctypes.cast(self._function, _Address).value or 0

    def signature(self) -> Any:
        return types.int64(types.int64, types.int64, types.int64)

    def __call__(self, client: int, fields: int, count: int) -> int:
        return self._function(client, fields, count) or 0


@cache
def library() -> ctypes.CDLL | None:
    """Return the library of the Python client; None where the client was built otherwise."""
    try:
        found = [it for it in files(_PACKAGE) or () if it.name.startswith(_LIBRARY)]
        loaded = ctypes.CDLL(str(found[0].locate()))
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(loaded, name)
            function.restype, function.argtypes = result, arguments
    except (PackageNotFoundError, IndexError, OSError, AttributeError):
        return None
    return loaded


class NativeProducer:
    """A producer for columns of records."""

    def __init__(self, settings: Mapping[str, object]) -> None:
        """Create the producer; `settings` are librdkafka's; raises KafkaException for others.

        `library()` must be there.
        """
        found = library()
        if found is None:
            raise RuntimeError("librdkafka did not come with its Python client")
        self._library = found
        self._topics: dict[str, int] = {}
        self._places: dict[tuple[str, int], int] = {}
        self._reports = np.zeros((_MOST_PLACES, _REPORT_WORDS), np.int64)
        self._on_delivery = _on_delivery()
        self._produce_va = _ProduceVa(found.rd_kafka_produceva)
        self._client = self._made(settings)
        # Compiling later would hold up heartbeats.
        _try_machine_code()
        self._call([], NO_RECORDS)
        # Records that are queued and not acknowledged by then are lost, unless they were flushed.
        # Until then librdkafka calls these objects and writes to them.
        weakref.finalize(
            self, _end, found, self._client, self._topics, (self._on_delivery, self._reports)
        )

    def _made(self, settings: Mapping[str, object]) -> int:
        found, why = self._library, ctypes.create_string_buffer(_ERROR_BYTES)
        given = found.rd_kafka_conf_new()
        for name, value in settings.items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            if found.rd_kafka_conf_set(given, name.encode(), text.encode(), why, _ERROR_BYTES):
                raise KafkaException(KafkaError(KafkaError._INVALID_ARG, why.value.decode()))
        found.rd_kafka_conf_set_dr_msg_cb(given, self._on_delivery)
        found.rd_kafka_conf_set_opaque(given, self._reports.ctypes.data)
        client: int | None = found.rd_kafka_new(_PRODUCER, given, why, _ERROR_BYTES)
        if client is None:
            raise KafkaException(KafkaError(KafkaError._FAIL, why.value.decode()))
        return client

    def produce(
        self,
        topic: str,
        partition: int,
        records: OutputRecords,
        headers: Sequence[tuple[str, bytes]],
    ) -> int:
        """Queue records with the same headers until one is not taken; how many were taken.

        Raises BufferError if the queue is full before the first, KafkaException for all else. Half
        a microsecond a record.
        """
        held = [(name.encode() + b"\0", value) for name, value in headers]
        fields = [
            (_TOPIC, self._topic(topic), 0, 0),
            (_PARTITION, partition, 0, 0),
            (_OPAQUE, self._place(topic, partition), 0, 0),
            *((_HEADER, _address_of(name), _address_of(it), len(it)) for name, it in held),
        ]
        taken, error = self._call(fields, records)
        if error and not taken:
            code = self._library.rd_kafka_error_code(error)
            self._library.rd_kafka_error_destroy(error)
            if code == KafkaError._QUEUE_FULL:
                raise BufferError
            raise KafkaException(KafkaError(code))
        if error:
            self._library.rd_kafka_error_destroy(error)
        return taken

    def _call(self, more: Sequence[tuple[int, ...]], records: OutputRecords) -> tuple[int, int]:
        keys, values = records.keys, records.values
        fields = np.zeros((_OF_RECORD + len(more), _FIELD_WORDS), np.int64)
        fields[_OF_RECORD:, :_HEADER_WORDS] = np.array(more, np.int64).reshape(-1, _HEADER_WORDS)
        taken, error = _produce(
            self._produce_va,
            self._client,
            fields,
            fields.ctypes.data,
            *(_start_of(keys.buffer), keys.starts, keys.ends),
            *(_start_of(values.buffer), values.starts, values.ends),
            records.ends,
        )
        return int(taken), int(error)

    def poll(self, seconds: float) -> None:
        """Process the delivery reports that have come; wait at most this long for the first."""
        self._library.rd_kafka_poll(self._client, round(seconds * 1000))

    def queued(self) -> int:
        """Return how many records are not acknowledged."""
        count: int = self._library.rd_kafka_outq_len(self._client)
        return count

    def flush(self, seconds: float) -> int:
        """Wait at most this long for all acknowledgements; return how many are missing."""
        self._library.rd_kafka_flush(self._client, round(seconds * 1000))
        return self.queued()

    def refusals(self) -> Iterator[tuple[str, int, KafkaError]]:
        """Yield topic and partition of where a record was not taken, and why the first was not."""
        places = list(self._places)  # another thread may bring one more meanwhile
        codes = self._reports[: len(places), _REFUSAL]
        if codes.any():
            for place, code in zip(places, codes.tolist(), strict=True):
                if code:
                    yield *place, KafkaError(code)

    def last_offset(self, topic: str, partition: int) -> int:
        """Return the largest acknowledged offset of a partition, -1 for none; the producer must get
        reports of all deliveries.
        """
        place = self._places.get((topic, partition))
        return -1 if place is None else int(self._reports[place, _END]) - 1

    def _topic(self, name: str) -> int:
        if name not in self._topics:
            self._topics[name] = self._library.rd_kafka_topic_new(self._client, name.encode(), None)
        return self._topics[name]

    def _place(self, topic: str, partition: int) -> int:
        place = self._places.setdefault((topic, partition), len(self._places))
        if place >= _MOST_PLACES:
            raise RuntimeError(f"a producer writes to {_MOST_PLACES} partitions at the most")
        return place


def _end(found: ctypes.CDLL, client: int, topics: Mapping[str, int], _used: object) -> None:
    for topic in topics.values():
        found.rd_kafka_topic_destroy(topic)
    found.rd_kafka_destroy(client)


def _address_of(data: bytes) -> int:
    return ctypes.cast(ctypes.c_char_p(data), _Address).value or 0


def _start_of(buffer: npt.NDArray[np.uint8]) -> int:
    return int(buffer.ctypes.data or 0)


@borrowing_kernel
def _note(message: Integers, reports: Integers) -> None:
    """Take in the report of a record."""
    report = reports[message[_GIVEN]]
    error = np.int32(message[_ERROR])
    if error == 0:
        report[_END] = max(report[_END], message[_OFFSET] + 1)
    elif report[_REFUSAL] == 0:
        report[_REFUSAL] = error


_REPORTS = _MOST_PLACES, _REPORT_WORDS


@callback_kernel(types.voidptr, types.voidptr, types.voidptr)
def _take_report(_client: Any, message: Any, reports: Any) -> None:
    """Take in the report of a record, as librdkafka gives it."""
    words = carray(message, (_MESSAGE_WORDS,), np.int64)
    _note(words, carray(reports, _REPORTS, np.int64))


@cache
def _on_delivery() -> Any:
    """Return the function that librdkafka calls for the report of a record: with its client, the
    record, and where reports are kept.
    """
    if config.DISABLE_JIT:

        def noted(_client: int, message: int, reports: int) -> None:
            words = (ctypes.c_int64 * _MESSAGE_WORDS).from_address(message)
            kept = (ctypes.c_int64 * (_MOST_PLACES * _REPORT_WORDS)).from_address(reports)
            _note(np.ctypeslib.as_array(words), np.ctypeslib.as_array(kept).reshape(_REPORTS))

        return _OnDelivery(noted)
    return _OnDelivery(address_of(_take_report))


_PLACES = types.Array(types.int64, 1, "C", readonly=True)


@ahead(
    typeof(_ProduceVa(None)),
    types.int64,
    types.Array(types.int64, 2, "C"),
    types.int64,
    *(types.int64, _PLACES, _PLACES),
    *(types.int64, _PLACES, _PLACES),
    types.Array(types.int64, 1, "C"),
)
@unlocked_kernel
def _produce(
    produce_va: Callable[[int, int, int], int],
    client: int,
    fields: Integers,
    fields_at: int,
    keys_at: int,
    key_starts: Integers,
    key_ends: Integers,
    values_at: int,
    value_starts: Integers,
    value_ends: Integers,
    timestamps: Integers,
) -> tuple[int, int]:
    """Return how many records were taken, and where the error of the next one lies, 0 for none."""
    fields[0, 0], fields[0, 1] = _FLAGS, _COPY
    fields[1, 0], fields[2, 0], fields[3, 0] = _KEY, _VALUE, _TIMESTAMP
    for row in range(len(timestamps)):
        fields[1, 1] = keys_at + key_starts[row]
        fields[1, 2] = max(key_ends[row] - key_starts[row], 0)
        size = value_ends[row] - value_starts[row]
        # A value without a beginning is null.
        fields[2, 1] = values_at + value_starts[row] if size >= 0 else 0
        fields[2, 2] = max(size, 0)
        fields[3, 1] = timestamps[row]
        error = produce_va(client, fields_at, len(fields))
        if error != 0:
            return row, error
    return len(timestamps), 0


@cache
def _try_machine_code() -> None:
    """Try the kernels whose arguments are addresses, which no golden vector has: one would lose
    records, or take lost ones for acknowledged. Raises KernelError.
    """
    if config.DISABLE_JIT:
        return
    columns = BinaryColumn.of([b"one", None, b"three"]), BinaryColumn.of([None, b"a value", b""])
    places = tuple((_start_of(it.buffer), it.starts, it.ends) for it in columns)

    def produced(function: Callable[..., tuple[int, int]]) -> list[object]:
        fields, calls = np.zeros((_OF_RECORD, _FIELD_WORDS), np.int64), list[object]()

        def take(client: int, at: int, count: int) -> int:
            calls.append((client, at == fields.ctypes.data, count, fields.tolist()))
            return len(calls) - 1  # The second is refused, and nothing is sent behind it.

        kind = ctypes.CFUNCTYPE(_Address, _Address, _Address, ctypes.c_size_t)
        given = kind(take)
        of_all = 7, fields, fields.ctypes.data, *places[0], *places[1], np.arange(3) + 2**40
        return [*calls, tuple(map(int, function(_ProduceVa(given), *of_all)))]

    def reported(take: Callable[[Integers, Integers], object]) -> list[object]:
        reports = np.zeros(_REPORTS, np.int64)
        for place, error, offset in ((5, 0, 41), (5, 0, 40), (6, -195, -1), (6, -2, -1), (7, 0, 0)):
            message = np.zeros(_MESSAGE_WORDS, np.int64)
            message[_GIVEN], message[_OFFSET] = place, offset
            message[_ERROR] = error % 2**32  # Four bytes, and four of nothing.
            take(message, reports)
        found: list[object] = reports[:8].tolist()
        return found

    def report(message: Integers, reports: Integers) -> None:
        _on_delivery()(None, message.ctypes.data, reports.ctypes.data)

    plain: Any = _produce
    if produced(_produce) != produced(plain.py_func):
        raise wrong_code(__package__, "column_producer._produce")
    plain = _note
    if reported(report) != reported(plain.py_func):
        raise wrong_code(__package__, "column_producer._take_report")


_FULL_S = 0.1
# Only a backlog has so many. A thread would begin late, as it has to take Python's lock.
_BACKLOG_RECORDS = 5_000
# An emission of three windows and five statistics; and the memory of its numbers, as a share.
_TEXT_BYTES, _SHARE_OF_TEXT = 2_000, 0.25


def _require_process() -> None:
    """Raise RuntimeError once the process ends, which waits for its threads: what is left is not
    sent, nor taken for acknowledged.
    """
    if not threading.main_thread().is_alive():
        raise RuntimeError("the process ends before all is queued")


def bulk_producer(bootstrap_servers: str, *, track_offsets: bool = False) -> BulkProducer:
    """Return a producer for many records at once, as fast as the Python client allows."""
    # The client of columns has no Python to ask for tokens.
    without_columns = broker_security().has_msk or library() is None
    kind = BulkProducer if without_columns else ColumnProducer
    return kind(bootstrap_servers, track_offsets=track_offsets)


class _Columns(NamedTuple):
    topic: str
    partition: int
    records: OutputRecords
    headers: Sequence[tuple[str, bytes]]


def _texts_of(records: OutputRecords) -> float:
    """Return how many texts of the usual size take as much memory."""
    if not records.are_written:
        return _SHARE_OF_TEXT * len(records)
    return max(len(records), (records.keys.size() + records.values.size()) / _TEXT_BYTES)


class ColumnProducer(BulkProducer):
    """A producer of two clients: columns need one of their own, as the Python client takes none.

    So the order of records holds only within each of the two. While many are queued, others are
    left to a thread, which lives as long as there are some.
    """

    def __init__(self, bootstrap_servers: str, *, track_offsets: bool = False) -> None:
        super().__init__(bootstrap_servers, track_offsets=track_offsets)
        settings = client_config(bootstrap_servers) | SETTINGS
        self._native = NativeProducer(settings | {"delivery.report.only.error": not track_offsets})
        # The columns that the thread has to queue, the first of them being queued, each with its
        # memory in texts.
        self._left = deque[tuple[_Columns, float]]()
        self._left_records = 0
        self._left_texts = 0.0
        self._turn = threading.Condition()

    def produce_columns(
        self,
        topic: str,
        partition: int,
        records: OutputRecords,
        headers: Sequence[tuple[str, bytes]],
    ) -> None:
        """Queue records, as `produce` does, in a quarter of its time. In a backlog they are written
        and queued later, and a refusal of them is raised by the next wait.
        """
        given = _Columns(topic, partition, records, headers)
        with self._turn:
            is_later = bool(self._left) or self._native.queued() >= _BACKLOG_RECORDS
        # The event loop may not wait for room, which lasts for as long as brokers are away.
        rest = given if is_later else self._queue_at_once(given)
        if len(rest.records) and not self._has_left(rest):
            self._queue(rest)

    def _queue_at_once(self, given: _Columns) -> _Columns:
        """Queue what the client has room for; return the rest."""
        topic, partition, rest, headers = given
        try:
            while len(rest):
                rest = rest[self._native.produce(topic, partition, rest, headers) :]
        except BufferError:
            pass
        except KafkaException as error:
            raise not_sent(topic, partition, error.args[0], is_ours=True) from error
        return _Columns(topic, partition, rest, headers)

    def _queue(self, given: _Columns) -> None:
        while len((given := self._queue_at_once(given)).records):
            self._native.flush(NOW_S)  # Records that fill no request would wait for more.
            self._native.poll(_FULL_S)
            self._take_refusals()
            self._raise_error()
            _require_process()

    def _queue_those_left(self) -> None:
        while True:
            try:
                self._wait_for_requests()
                if self._error is None:
                    self._queue(self._left[0][0])
            except Exception as error:  # noqa: BLE001 - raised by who waits
                self.fail(error)
            with self._turn:
                self._add(self._left.popleft(), -1)
                if not self._left:
                    self._turn.notify_all()
                    return

    def _has_left(self, given: _Columns) -> bool:
        """Leave records to the thread; False if the system gives none."""
        left = given, _texts_of(given.records)
        with self._turn:
            self._left.append(left)
            self._add(left, 1)
            if len(self._left) == 1:
                try:
                    threading.Thread(target=self._queue_those_left).start()
                except RuntimeError:
                    self._add(self._left.pop(), -1)
                    return False
        return True

    def _add(self, left: tuple[_Columns, float], times: int) -> None:
        given, texts = left
        self._left_records += times * len(given.records)
        self._left_texts += times * texts

    def _wait_for_requests(self) -> None:
        """Wait until few records are in the client."""
        queued = Watched()
        while self._error is None and (left := self._native.queued()) > FEW_RECORDS:
            _require_process()
            if queued.is_stuck(left):
                self._native.flush(NOW_S)
            self._native.poll(ROOM_CHECK_S)
            self._take_refusals()

    def last_offset(self, topic: str, partition: int) -> int:
        """Return the largest acknowledged offset of a partition; raises KeyError if there is none
        or offsets are not tracked.
        """
        offset = self._native.last_offset(topic, partition)
        return super().last_offset(topic, partition) if offset < 0 else offset

    def _is_crowded(self) -> bool:
        # The thread waits for the client as well, and what is left to it has a limit of its own.
        if not self._left:
            return super()._is_crowded()
        return self._left_texts > FEW_RECORDS

    def _unacknowledged(self) -> int:
        with self._turn:
            left = self._left_records
        return left + super()._unacknowledged() + self._native.queued()

    def _poll(self, seconds: float) -> None:
        super()._poll(0)
        self._native.poll(seconds)
        self._take_refusals()

    def _flush_for(self, seconds: float) -> int:
        until = time.monotonic() + seconds
        with self._turn:
            self._turn.wait_for(lambda: not self._left, seconds)
        self._native.flush(max(0.0, until - time.monotonic()))
        super()._flush_for(seconds)
        # Counted first: a report that comes meanwhile is looked at.
        missing = self._unacknowledged()
        self._take_refusals()
        return missing

    def _wake(self) -> None:
        self._native.flush(0)
        # The first flush is of columns, the second of these.
        if super()._unacknowledged():
            super()._flush_for(NOW_S)
        self._take_refusals()

    def _take_refusals(self) -> None:
        for refusal in self._native.refusals():
            self._note_refusal(*refusal)
