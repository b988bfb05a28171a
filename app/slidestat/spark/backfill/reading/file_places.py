"""Where rows lie among all files: those of one time come in the order of the files' paths, whether
Spark or Python's tasks read a file.
"""

from collections.abc import Mapping
from typing import TypeVar
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, functions as f

Number = TypeVar("Number", int, Column)

PLACE = "slidestat place"
"""The column of places in rows of Spark."""

# A file has fewer bytes, and a history fewer than two million files.
_FILE_BYTES = 1 << 42
_URL = "slidestat url"


def file_ranks(rows: DataFrame) -> dict[str, int]:
    """Return the rank of each file that Spark reads for these rows, by its URL without escapes."""
    urls = sorted({unquote(name) for name in rows.inputFiles()})
    return {url: rank for rank, url in enumerate(urls)}


def place_of(rank: Number, part: Number) -> Number:
    """Return the place of the rows in part of a file; later parts have greater numbers."""
    return rank * _FILE_BYTES + part


def with_places(rows: DataFrame, ranks: Mapping[str, int]) -> DataFrame:
    """Add the places of rows of files, those of a part of a file that one task reads having one.

    Cost: a hash table of the files in each executor, and one look into it for each row.
    """
    found = {name: ranks[unquote(name)] for name in rows.inputFiles()}
    # Spark's rows have file:/a where its lists of files have file:///a.
    found |= {name.replace("file:///", "file:/", 1): rank for name, rank in found.items()}
    table = rows.sparkSession.createDataFrame(
        list(found.items()), f"`{_URL}` string, `{PLACE}` bigint"
    )
    file = rows.metadataColumn("_metadata")
    part = "slidestat part"
    named = rows.select(
        "*", file["file_path"].alias(_URL), file["file_block_start"].alias(part)
    ).join(f.broadcast(table), _URL, "left")
    known = f.coalesce(f.col(PLACE), _unknown())
    return named.withColumn(PLACE, place_of(known, f.col(part))).drop(_URL, part)


def _unknown() -> Column:
    return f.raise_error(f.concat(f.lit("a file that came while others were read: "), f.col(_URL)))
