"""librdkafka by its own interface (rdkafka.h), for records that lie in columns.

Its Python client, which brings the library, takes records one by one as Python objects: 2
microseconds each, where librdkafka itself takes half of one. Here a kernel calls it. All else is
the client's: settings have the same names, errors are its errors.
"""

import ctypes
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, files
from typing import Any

import numba.experimental.function_type  # noqa: F401  has kernels know functions as arguments
import numpy as np
import numpy.typing as npt
from confluent_kafka import KafkaError, KafkaException
from numba import types

from slidestat.engine.emissions.output_records import NO_RECORDS, OutputRecords
from slidestat.synopses.core.compile import borrowing_kernel

Int64s = npt.NDArray[np.int64]

OnRefusal = Callable[[str, int, KafkaError], None]
"""Called with topic, partition and reason of a record that was not delivered."""

_PACKAGE, _LIBRARY = "confluent-kafka", "librdkafka"
_PRODUCER, _COPY = 0, 2
_ERROR_BYTES = 512
# Fields of rd_kafka_vu_t: which of them it is, then up to 64 bytes.
_FIELD_WORDS, _HEADER_WORDS = 9, 4
_TOPIC, _PARTITION, _VALUE, _KEY, _FLAGS, _TIMESTAMP, _HEADER = 2, 3, 4, 5, 7, 8, 9
# The first fields, which the kernel fills in: flags, key, value and timestamp.
_OF_RECORD = 4

_Address = ctypes.c_void_p
_OnDelivery = ctypes.CFUNCTYPE(None, _Address, _Address, _Address)
_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "rd_kafka_conf_new": (_Address, []),
    "rd_kafka_conf_set": (
        ctypes.c_int,
        [_Address, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t],
    ),
    "rd_kafka_conf_set_dr_msg_cb": (None, [_Address, _OnDelivery]),
    "rd_kafka_new": (_Address, [ctypes.c_int, _Address, ctypes.c_char_p, ctypes.c_size_t]),
    "rd_kafka_destroy": (None, [_Address]),
    "rd_kafka_topic_new": (_Address, [_Address, ctypes.c_char_p, _Address]),
    "rd_kafka_topic_destroy": (None, [_Address]),
    "rd_kafka_topic_name": (ctypes.c_char_p, [_Address]),
    "rd_kafka_outq_len": (ctypes.c_int, [_Address]),
    "rd_kafka_poll": (ctypes.c_int, [_Address, ctypes.c_int]),
    "rd_kafka_flush": (ctypes.c_int, [_Address, ctypes.c_int]),
    "rd_kafka_error_code": (ctypes.c_int, [_Address]),
    "rd_kafka_error_destroy": (None, [_Address]),
    "rd_kafka_produceva": (_Address, [_Address, _Address, ctypes.c_size_t]),
}


class _ProduceVa(types.WrapperAddressProtocol):
    """rd_kafka_produceva for kernels, which call it at its address, and for Python."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def __wrapper_address__(self) -> int:
        return ctypes.cast(self._function, _Address).value or 0

    def signature(self) -> Any:
        return types.int64(types.int64, types.int64, types.int64)

    def __call__(self, client: int, fields: int, count: int) -> int:
        return self._function(client, fields, count) or 0


class _Message(ctypes.Structure):
    """The beginning of rd_kafka_message_t."""

    _fields_ = (("err", ctypes.c_int), ("topic", _Address), ("partition", ctypes.c_int32))


@cache
def library() -> ctypes.CDLL | None:
    """The library that comes with the Python client; None where it was built otherwise."""
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

    def __init__(self, settings: Mapping[str, object], on_refusal: OnRefusal) -> None:
        """`settings` are librdkafka's; raises KafkaException for others. `library()` is there."""
        found = library()
        if found is None:
            raise RuntimeError("librdkafka did not come with its Python client")
        self._library = found
        self._on_refusal = on_refusal
        self._topics: dict[str, int] = {}
        self._on_delivery = _OnDelivery(self._delivered)
        self._produce_va = _ProduceVa(found.rd_kafka_produceva)
        self._client = self._made(settings)
        # What compiles later would hold up heartbeats.
        self._call([], [], NO_RECORDS, NO_RECORDS.ends)
        # What is queued and not acknowledged by then is lost: whoever needs it flushes.
        weakref.finalize(self, _end, found, self._client, self._topics)

    def _made(self, settings: Mapping[str, object]) -> int:
        found, why = self._library, ctypes.create_string_buffer(_ERROR_BYTES)
        given = found.rd_kafka_conf_new()
        for name, value in settings.items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            if found.rd_kafka_conf_set(given, name.encode(), text.encode(), why, _ERROR_BYTES):
                raise KafkaException(KafkaError(KafkaError._INVALID_ARG, why.value.decode()))
        found.rd_kafka_conf_set_dr_msg_cb(given, self._on_delivery)
        client: int | None = found.rd_kafka_new(_PRODUCER, given, why, _ERROR_BYTES)
        if client is None:
            raise KafkaException(KafkaError(KafkaError._FAIL, why.value.decode()))
        return client

    def produce(
        self,
        topic: str,
        partition: int,
        records: OutputRecords,
        timestamps: Int64s,
        headers: Sequence[tuple[str, bytes]],
    ) -> int:
        """Queue records with the same headers until one is not taken; how many were taken.

        Raises BufferError if the queue is full before the first, KafkaException for all else. Half
        a microsecond a record.
        """
        places = [(_TOPIC, self._topic(topic), 0, 0), (_PARTITION, partition, 0, 0)]
        held = [(name.encode() + b"\0", value) for name, value in headers]
        more = [(_HEADER, _address_of(name), _address_of(it), len(it)) for name, it in held]
        taken, error = self._call(places, more, records, timestamps)
        if error and not taken:
            code = self._library.rd_kafka_error_code(error)
            self._library.rd_kafka_error_destroy(error)
            if code == KafkaError._QUEUE_FULL:
                raise BufferError
            raise KafkaException(KafkaError(code))
        if error:
            self._library.rd_kafka_error_destroy(error)
        return taken

    def _call(
        self,
        places: Sequence[tuple[int, ...]],
        headers: Sequence[tuple[int, ...]],
        records: OutputRecords,
        timestamps: Int64s,
    ) -> tuple[int, int]:
        fields = np.zeros((_OF_RECORD + len(places) + len(headers), _FIELD_WORDS), np.int64)
        fields[_OF_RECORD:, :_HEADER_WORDS] = np.array([*places, *headers], np.int64).reshape(
            -1, _HEADER_WORDS
        )
        keys, values = records.keys, records.values
        taken, error = _produce(
            self._produce_va,
            self._client,
            fields,
            fields.ctypes.data,
            *(_start_of(keys.buffer), keys.starts, keys.ends),
            *(_start_of(values.buffer), values.starts, values.ends),
            timestamps,
        )
        return int(taken), int(error)

    def poll(self, seconds: float) -> None:
        """Have refusals told that have come, waiting so long for the first at most."""
        self._library.rd_kafka_poll(self._client, round(seconds * 1000))

    def queued(self) -> int:
        """How many records are not acknowledged."""
        count: int = self._library.rd_kafka_outq_len(self._client)
        return count

    def flush(self, seconds: float) -> int:
        """Wait so long at most until all are acknowledged; how many are not."""
        self._library.rd_kafka_flush(self._client, round(seconds * 1000))
        return self.queued()

    def _topic(self, name: str) -> int:
        if name not in self._topics:
            self._topics[name] = self._library.rd_kafka_topic_new(self._client, name.encode(), None)
        return self._topics[name]

    def _delivered(self, _client: int, message: int, _opaque: int | None) -> None:
        it = _Message.from_address(message)
        if it.err:
            topic = self._library.rd_kafka_topic_name(it.topic).decode()
            self._on_refusal(topic, it.partition, KafkaError(it.err))


def _end(found: ctypes.CDLL, client: int, topics: Mapping[str, int]) -> None:
    for topic in topics.values():
        found.rd_kafka_topic_destroy(topic)
    found.rd_kafka_destroy(client)


def _address_of(data: bytes) -> int:
    return ctypes.cast(ctypes.c_char_p(data), _Address).value or 0


def _start_of(buffer: npt.NDArray[np.uint8]) -> int:
    return int(buffer.ctypes.data or 0)


@borrowing_kernel
def _produce(
    produce_va: Callable[[int, int, int], int],
    client: int,
    fields: Int64s,
    fields_at: int,
    keys_at: int,
    key_starts: Int64s,
    key_ends: Int64s,
    values_at: int,
    value_starts: Int64s,
    value_ends: Int64s,
    timestamps: Int64s,
) -> tuple[int, int]:
    """Return how many records were taken, and where the error of the next one lies, 0 for none."""
    fields[0, 0], fields[0, 1] = _FLAGS, _COPY
    fields[1, 0], fields[2, 0], fields[3, 0] = _KEY, _VALUE, _TIMESTAMP
    for row in range(len(timestamps)):
        fields[1, 1] = keys_at + key_starts[row]
        fields[1, 2] = key_ends[row] - key_starts[row]
        fields[2, 1] = values_at + value_starts[row]
        fields[2, 2] = value_ends[row] - value_starts[row]
        fields[3, 1] = timestamps[row]
        error = produce_va(client, fields_at, len(fields))
        if error != 0:
            return row, error
    return len(timestamps), 0
