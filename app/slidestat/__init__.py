"""Sliding-window statistics of keyed Kafka topics, in bounded memory, with bounds that hold.

The public face: declarations, their statistics, and drivers for unit tests. Synopses that are used
alone are in `slidestat.synopses`, the records on the wire in `slidestat.schemas`. Whatever is in
neither is private, and may change. Each name is loaded at its first use.
"""

from slidestat.faces import attach

__all__, __getattr__, __dir__ = attach(__name__)
