"""Choices that the command line offers and the code behind it takes; quick to import."""

from enum import StrEnum

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
BOOTSTRAP_VARIABLE = "KAFKA_BOOTSTRAP_SERVERS"
REGISTRY_VARIABLE = "SCHEMA_REGISTRY_URL"

LOOPBACK = "127.0.0.1"
TOKEN_VARIABLE = "SLIDESTAT_WEB_TOKEN"  # noqa: S105  a variable's name
TOKEN_FILE_VARIABLE = "SLIDESTAT_WEB_TOKEN_FILE"  # noqa: S105  a variable's name


class Compression(StrEnum):
    """The compression of what a producer sends."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class TimeUnit(StrEnum):
    """The unit of a time column's integers, which count since 1970-01-01T00:00:00Z."""

    SECONDS = "s"
    MILLISECONDS = "ms"
    MICROSECONDS = "us"
    NANOSECONDS = "ns"


class SchemaForm(StrEnum):
    """The form in which a schema is printed."""

    JSON = "json"
    AVRO = "avro"
