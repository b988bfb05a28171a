"""Headers as they are in a batch of Kafka's format v2, made Python objects when asked for."""

from collections.abc import Sequence
from typing import overload

from aiokafka.record.util import decode_varint

from slidestat.engine.decoding.binary_column import BinaryColumn
from slidestat.engine.records import Headers


class HeaderColumn(Sequence[Headers]):
    """The headers of n records: a kernel has checked that their bytes are as they must be."""

    __slots__ = ("_encoded",)

    def __init__(self, encoded: BinaryColumn) -> None:
        self._encoded = encoded

    def __len__(self) -> int:
        return len(self._encoded)

    @overload
    def __getitem__(self, index: int) -> Headers: ...

    @overload
    def __getitem__(self, index: slice) -> "HeaderColumn": ...

    def __getitem__(self, index: "int | slice") -> "Headers | HeaderColumn":
        if isinstance(index, slice):
            return HeaderColumn(self._encoded[index])
        encoded = self._encoded[index]
        return () if encoded is None else _decoded(encoded)


def _decoded(encoded: bytes) -> Headers:
    """Read their number, then the length and the bytes of each one's name and value."""
    data = bytearray(encoded)
    count, place = decode_varint(data, 0)
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        size, place = decode_varint(data, place)
        # Kafka wants UTF-8 and does not check it: what is none must not end the worker.
        name = encoded[place : place + size].decode(errors="replace")
        size, place = decode_varint(data, place + size)
        value = None
        if size >= 0:
            value = encoded[place : place + size]
            place += size
        headers.append((name, value))
    return headers
