"""The forms in which a lake keeps its records."""

from enum import StrEnum


class Tables(StrEnum):
    """Parquet files alone, which any reader takes as they are; or with Delta Lake's log of which of
    them count.
    """

    PARQUET = "parquet"
    DELTA = "delta"
