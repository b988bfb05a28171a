"""The jobs on Spark; and for notebooks the figures of a lake as a table, aggregates as columns.

>>> from slidestat.spark import basic_quantile, read_statistics
"""

from slidestat.faces import attach

__all__, __getattr__, __dir__ = attach(__name__)
