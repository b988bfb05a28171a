"""Errors for bad input, bad parameters and bad bytes."""


class SynopsisError(ValueError):
    """An error for a value that cannot be taken: the message names it and the rule it breaks, after
    its `group`, the place in a batch, if it has one.
    """

    def __init__(self, rule: str, group: int | None = None) -> None:
        super().__init__(rule if group is None else f"group {group}: {rule}")
        self.rule = rule


class NewerVersionError(SynopsisError):
    """An error for bytes of a version that is not known yet."""


class WindowTooLargeError(SynopsisError):
    """The window holds more units than can be kept: the input is in order, but too much."""
