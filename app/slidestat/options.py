"""Choices that the command line offers and the code behind it takes, and each default that more
than one of them has; quick to import.
"""

from enum import StrEnum

LOOPBACK = "127.0.0.1"
BROKER_PORT = 9092
DEFAULT_BOOTSTRAP = f"{LOOPBACK}:{BROKER_PORT}"
BOOTSTRAP_VARIABLE = "KAFKA_BOOTSTRAP_SERVERS"
REGISTRY_VARIABLE = "SCHEMA_REGISTRY_URL"

FIRST_PORT = 6066
KEYS_OF_A_PAGE = 100
# Looking once, without --from-beginning, reads this many of a partition's newest records: enough
# for any screen, and soon done whatever the topic's length.
TAIL_RECORDS = 10_000
TOKEN_VARIABLE = "SLIDESTAT_WEB_TOKEN"  # noqa: S105  a variable's name
TOKEN_FILE_VARIABLE = f"{TOKEN_VARIABLE}_FILE"
# The bearer of this token may look, and do nothing more.
VIEW_TOKEN_VARIABLE = "SLIDESTAT_WEB_VIEW_TOKEN"  # noqa: S105  a variable's name
VIEW_TOKEN_FILE_VARIABLE = f"{VIEW_TOKEN_VARIABLE}_FILE"


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


class Tables(StrEnum):
    """The form of a lake's tables: Parquet files only, which any reader takes as they are; or with
    Delta Lake's log of which of them count.
    """

    PARQUET = "parquet"
    DELTA = "delta"


class StreamSource(StrEnum):
    """The source of a stream on Spark: the topology's topic, a Delta table, or a folder of files
    that come one by one.
    """

    KAFKA = "kafka"
    DELTA = "delta"
    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"


# Defaults.

KEY_FIELD = "key"
TIME_FIELD = "time"
VALUE_FIELD = "value"
TIME_UNIT = TimeUnit.MILLISECONDS
JSON = "json"
"""The format of a source, and of the output."""

COMPRESSION = Compression.LZ4
"""The codec of what is produced."""

CHECKPOINT_INTERVAL_S = 30.0
"""Kafka Streams' default for commits."""

PARTITIONS = 4
"""The number of partitions of a topic that is created, or would have been."""

# A broker deletes by the records' timestamps. Events carry their event time there, so under the
# usual seven days historical events would vanish before anything has read them.
FOREVER = "forever"
EARLIEST = "earliest"
LATEST = "latest"

RECORDS_PER_BATCH = 1_000_000
"""The number of records that an ingest takes from a topic at once."""

HISTORY_FORMAT = "parquet"
"""The format of files of history."""

AUDITED_SHARE = 1.0
"""The share of the keys that an audit recomputes."""

QUANTILES = (0.5, 0.9, 0.99)
KEYS_GROUPED_BY = "key"
"""The SQL of a rollup's groups: each key is one."""
