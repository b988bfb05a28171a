"""Sliding-window statistics of keyed Kafka topics, in bounded memory, with bounds that hold.

The public face: declarations, their statistics, and drivers for unit tests. Public, too, are
`slidestat.synopses`, which can be used alone, `slidestat.client`, `slidestat.faust`,
`slidestat.spark`, and the records on the wire in `slidestat.schemas`. All else is private, and may
change, except what the guides import. Each name is loaded at its first use.
"""

from slidestat.faces import attach

__all__, __getattr__, __dir__ = attach(__name__)
