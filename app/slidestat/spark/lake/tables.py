"""The forms in which a lake keeps its records."""

from enum import StrEnum


class Tables(StrEnum):
    """The form of a lake's tables: Parquet files only, which any reader takes as they are; or with
    Delta Lake's log of which of them count.
    """

    PARQUET = "parquet"
    DELTA = "delta"
