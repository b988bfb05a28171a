"""The worker: Faust's consumer with batches, tables, checkpoints, start and shutdown.

A topology can be attached to a Faust application of the user's own:

>>> from slidestat.faust import attach
"""

from slidestat.faces import attach as _attach_names

__all__, __getattr__, __dir__ = _attach_names(__name__)
