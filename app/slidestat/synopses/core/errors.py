"""Errors for bad input, bad parameters and bad bytes."""


class SynopsisError(ValueError):
    """Raised for a value that cannot be taken: the message names it and the rule it breaks."""


class WindowTooLargeError(SynopsisError):
    """The window holds more units than can be kept: the input is in order, but too much."""
