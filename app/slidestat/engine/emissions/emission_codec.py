"""The interfaces of what writes and reads emissions, and the codec for JSON."""

from collections.abc import Callable, Collection, Iterable
from typing import Protocol, Self

import msgspec

from slidestat.schemas.emission import Emission, emission_key
from slidestat.schemas.sequence import decode_emission


class NotAnEmissionError(Exception):
    """An error of bytes that are no emission."""


class EmissionWriter(Protocol):
    """A writer of emissions as records of the output topic."""

    def records(self, emission: Emission) -> Iterable[tuple[bytes, bytes]]:
        """Return the Kafka keys and values of an emission; the same ones at each call."""

    def of_added(self, labels: Collection[str]) -> "EmissionWriter":
        """Return a writer for emissions in which the statistics with these labels may not cover
        their windows. Raises SlidestatError where a registry does not take their schema.
        """


class EmissionCodec(EmissionWriter, Protocol):
    """A codec that writes emissions as one record each, and reads them."""

    def encode(self, emission: Emission) -> bytes:
        """Return the bytes of an emission; the same ones at each call."""

    def decode(self, value: bytes) -> Emission:
        """Return the emission of some bytes; raises NotAnEmissionError for others."""


class OneRecord:
    """The part of a codec that makes one record of an emission."""

    encode: Callable[[Emission], bytes]

    def records(self, emission: Emission) -> Iterable[tuple[bytes, bytes]]:
        """Return the one record of an emission, under its key."""
        key = emission_key(emission.topology, emission.key, emission.window_end_ms)
        return [(key, self.encode(emission))]

    def of_added(self, _labels: Collection[str]) -> Self:
        """Return itself: each figure has a field for the time from which it is counted."""
        return self


class JsonCodec(OneRecord):
    """A codec for JSON as in schemas/json; it reads both versions."""

    def __init__(self) -> None:
        self.encode = msgspec.json.Encoder().encode

    def decode(self, value: bytes) -> Emission:
        """Return the emission of its JSON; raises NotAnEmissionError for other bytes."""
        try:
            return decode_emission(value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise NotAnEmissionError from error


class JsonWithNumbers(JsonCodec):
    """The same codec, which keeps the numbers of emissions in addition to their text: where all
    emissions have the same figures, they are in `OutputRecords.said`.
    """
