"""Synopses of streams: small, flat, versioned bytes that answer for any window, with bounds.

All public names are here: `from slidestat.synopses import ExponentialHistogram`. They need numba,
NumPy, platformdirs and (for items that are strings) xxhash alone: no Kafka, no Faust, no Spark.
Each is loaded at its first use, and with it numba, which takes most of a second to import: code
that only names a statistic and its error does not wait for it.
"""

from slidestat.faces import attach

__all__, __getattr__, __dir__ = attach(__name__)
