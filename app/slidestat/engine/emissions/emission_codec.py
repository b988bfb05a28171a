"""The interfaces of what writes and reads emissions, and the codec for JSON."""

from collections.abc import Callable, Collection, Iterable
from typing import Protocol, Self

import msgspec

from slidestat.schemas.emission import Emission, emission_key
from slidestat.schemas.sequence import decode_emission


class NotAnEmissionError(Exception):
    """These bytes are no emission."""


class EmissionWriter(Protocol):
    """Writes emissions as records of the output topic."""

    def records(self, emission: Emission) -> Iterable[tuple[bytes, bytes]]:
        """Their Kafka keys and values; the same ones whenever it is asked."""

    def of_added(self, labels: Collection[str]) -> "EmissionWriter":
        """One for emissions in which the statistics with these labels may not be of all of their
        windows. Raises SlidestatError where a registry does not take their schema.
        """


class EmissionCodec(EmissionWriter, Protocol):
    """Writes emissions as one record each, and reads them."""

    def encode(self, emission: Emission) -> bytes:
        """The bytes of an emission; the same ones whenever it is asked."""

    def decode(self, value: bytes) -> Emission:
        """The emission of some bytes; raises NotAnEmissionError for others."""


class OneRecord:
    """The part of a codec that makes one record of an emission."""

    encode: Callable[[Emission], bytes]

    def records(self, emission: Emission) -> Iterable[tuple[bytes, bytes]]:
        """The record, under the key of the emission."""
        key = emission_key(emission.topology, emission.key, emission.window_end_ms)
        return [(key, self.encode(emission))]

    def of_added(self, _labels: Collection[str]) -> Self:
        """Itself: each figure says since when it is counted."""
        return self


class JsonCodec(OneRecord):
    """JSON as in schemas/json; reads both versions."""

    def __init__(self) -> None:
        self.encode = msgspec.json.Encoder().encode

    def decode(self, value: bytes) -> Emission:
        """The emission of its JSON; raises NotAnEmissionError for other bytes."""
        try:
            return decode_emission(value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise NotAnEmissionError from error


class JsonWithNumbers(JsonCodec):
    """The same, for those who want the numbers of emissions beside their text: where all emissions
    have the same figures, they are in `OutputRecords.said`.
    """
