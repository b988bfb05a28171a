"""The interface of an emission codec, and the codec for JSON."""

from typing import Protocol

import msgspec

from slidestat.schemas.emission import Emission


class NotAnEmissionError(Exception):
    """These bytes are no emission."""


class EmissionCodec(Protocol):
    """Writes emissions as bytes, and reads them."""

    def encode(self, emission: Emission) -> bytes:
        """The bytes of an emission; the same ones whenever it is asked."""

    def decode(self, value: bytes) -> Emission:
        """The emission of some bytes; raises NotAnEmissionError for others."""


class JsonCodec:
    """JSON as in schemas/json."""

    def __init__(self) -> None:
        self.encode = msgspec.json.Encoder().encode
        self._decode = msgspec.json.Decoder(Emission).decode

    def decode(self, value: bytes) -> Emission:
        """The emission of its JSON; raises NotAnEmissionError for other bytes."""
        try:
            return self._decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise NotAnEmissionError from error
