"""An asynchronous client of running workers: their questions with typed answers.

>>> from slidestat.client import Client
"""

from slidestat.faces import attach

__all__, __getattr__, __dir__ = attach(__name__)
