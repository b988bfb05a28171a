"""Read a topic's emissions as they come, or those that are there."""

from dataclasses import dataclass

import msgspec

from slidestat.engine.emissions.emission_codec import NotAnEmissionError
from slidestat.engine.emissions.output_codec import AnyFormat
from slidestat.kafka.read.topic_reader import TopicReader
from slidestat.schemas.emission import Emission


@dataclass(frozen=True)
class Record:
    """An emission, and its JSON: the record's own bytes, if they are."""

    emission: Emission
    json: bytes


@dataclass
class EmissionReader(TopicReader[Record]):
    """A reader of emissions; those in Avro need a schema `registry`, without which `batches` raises
    SlidestatError.
    """

    registry: str = ""

    def __post_init__(self) -> None:
        self._format = AnyFormat(self.registry)

    def _decoded(self, value: bytes, headers: list[tuple[str, bytes]]) -> Record | None:
        try:
            emission = self._format.decode(value)
        except NotAnEmissionError:
            self._set_aside(headers)
            return None
        if not self._wants(emission.key):
            return None
        return Record(emission, value if value[:1] == b"{" else msgspec.json.encode(emission))
