"""What this package raises for bad input, bad parameters and bad bytes."""


class SynopsisError(ValueError):
    """What was given cannot be taken: the message names the value and the rule it breaks."""


class WindowTooLargeError(SynopsisError):
    """The window holds more units than can be kept: the input is in order, but too much."""
