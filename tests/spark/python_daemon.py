"""Spark's daemon of Python workers for tests, which has imported what these work with.

Each worker is a fork of it: it begins with all of that, in place of a second and more of its own. A
worker that has had nothing to do for a minute ends, and tests make many of them.
"""

import importlib

from pyspark.daemon import manager

_IMPORTED = (
    "pandas",
    "pyspark.sql.streaming.stateful_processor_api_client",
    "slidestat.spark.audit.workers",
    "slidestat.spark.backfill.by_key",
    "slidestat.spark.backfill.engine_outputs",
    "slidestat.spark.backfill.history",
    "slidestat.spark.sql.aggregates",
    "slidestat.spark.streaming.blocks",
    "slidestat.spark.streaming.processor",
    "slidestat.spark.streaming.shard",
)

if __name__ == "__main__":
    for name in _IMPORTED:
        importlib.import_module(name)
    manager()
