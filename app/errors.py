"""Errors that are the user's to mend: what is wrong, and what to do next."""


class SlidestatError(Exception):
    """A fault that a user can mend.

    `message` says in one sentence what is wrong, `advice` in one sentence what to do next.
    The command line prints both and no stack trace.
    """

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.message} {self.advice}".rstrip()
