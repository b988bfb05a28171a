"""The schemas of a source's records, by their numbers in the registry, as far as they are known."""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from slidestat.engine.decoding.formats.framing import UnusableSchemaError, schemas_of

AVRO = "AVRO"
PROTOBUF = "PROTOBUF"


class NamedText(NamedTuple):
    """A schema that another one refers to, by this name."""

    name: str
    text: str


class SchemaText(NamedTuple):
    """A schema, and those that it names types of, each before those that name its own; `kind` is
    its type as a registry calls it.
    """

    text: str
    references: tuple[NamedText, ...] = ()
    kind: str = AVRO


class SourceSchemas:
    """The schemas of a source by their numbers.

    Callers that read records make sure that the schemas of those records are known before.
    """

    def __init__(self) -> None:
        self._found: dict[int, SchemaText] = {}
        self._lacking: dict[int, str] = {}

    def add(self, number: int, schema: SchemaText) -> None:
        """Take in a schema."""
        self._found[number] = schema

    def lack(self, number: int, why: str) -> None:
        """Note that there is no schema of this number."""
        self._lacking[number] = why

    def forget_lacking(self) -> None:
        """Forget which schemas are missing, so that they are looked up again: garbage may name any
        number of them. Must not be called during a read.
        """
        self._lacking.clear()

    def unknown(self, values: Iterable[bytes | None]) -> set[int]:
        """Return the schema numbers of values that are not known yet."""
        return schemas_of(values) - self._found.keys() - self._lacking.keys()

    def of(self, number: int) -> SchemaText:
        """Return the schema of this number; raises UnusableSchemaError where there is none, and
        KeyError if the number has not been looked up.
        """
        if number in self._lacking:
            raise UnusableSchemaError(self._lacking[number])
        return self._found[number]


class Registry(Protocol):
    """A finder of schemas by their numbers, which remembers those that it found."""

    @property
    def schemas(self) -> SourceSchemas:
        """Return what was found."""

    def look_up(self, number: int) -> str | None:
        """Find a schema, or that there is none; else return why not, for a person."""
