"""The log of a running worker: lines for the person at its terminal, or a JSON object a line for
whatever collects logs.

An event is a few words that stay the same, with fields for what it is about: `topology`, `topic`,
`partition` and `offset` as far as they apply, so that a line leads to the records it is about. In
JSON also the warnings of the libraries, and the error that ends a worker, are one line each.
"""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

from pythonjsonlogger.json import JsonFormatter

from slidestat.errors import SlidestatError
from slidestat.redaction import RedactedRecord, redacted, redacted_all

_log = logging.getLogger("slidestat")


class LogForm(StrEnum):
    """The form of a worker's log."""

    TEXT = "text"
    JSON = "json"


LOG_FORM = LogForm.TEXT

TIME_FORM = "%Y-%m-%d %H:%M:%S"
"""The form of times in front of lines for people, by this machine's clock."""

ERROR = "error: "
"""The beginning of what ends a command, as it is printed."""


def log_event(event: str, text: str | None = None, **fields: object) -> None:
    """Log an event; a terminal shows its text after the time, and nothing of one that has none."""
    _log.info(event, extra={**fields, **({} if text is None else {"text": text})})


def tell(event: str, text: str, **fields: object) -> None:
    """Log an event with a text; where nothing is logged, as in a command that ends, print it."""
    if _log.handlers:
        log_event(event, text, **fields)
    else:
        print(text, file=sys.stderr, flush=True)


def log_exception(event: str, **fields: object) -> None:
    """Log the exception that is being handled."""
    _log.exception(event, extra=fields)


@contextmanager
def logging_to_stderr(form: LogForm = LOG_FORM) -> Iterator[None]:
    """Log to standard error in this form. In JSON, so is the error that ends the worker: SystemExit
    takes the place of the exception.
    """
    logging.setLogRecordFactory(RedactedRecord)
    handler = logging.StreamHandler(sys.stderr)
    if form is LogForm.TEXT:
        handler.setFormatter(_TextFormatter("%(asctime)s %(text)s", TIME_FORM))
        handler.addFilter(lambda record: hasattr(record, "text"))
    else:
        handler.setFormatter(_json_formatter())
    level, propagates = _log.level, _log.propagate
    _log.addHandler(handler)
    _log.setLevel(logging.INFO)
    _log.propagate = False
    try:
        yield
    except SlidestatError as error:
        if form is LogForm.TEXT:
            raise
        _log.error("stopped", extra={"error": error.message, "advice": error.advice})
        sys.exit(error.exit_code)
    except Exception:
        if form is LogForm.TEXT:
            raise
        log_exception("stopped")
        sys.exit(1)
    finally:
        _log.removeHandler(handler)
        _log.propagate = propagates
        _log.setLevel(level)


def json_logging() -> dict[str, Any]:
    """Return a logging configuration that logs the warnings of all libraries in JSON."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": _json_formatter}},
        "handlers": {
            "stderr": {
                "class": "logging.StreamHandler",
                "stream": "ext://sys.stderr",
                "formatter": "json",
            }
        },
        "root": {"level": "WARNING", "handlers": ["stderr"]},
    }


class _TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """Return the text with its time, on this machine's clock. The error that ends a worker is
        printed as by any command: the parent of several workers recognises it by its beginning.
        """
        text: str = getattr(record, "text", "")
        return redacted(text if text.startswith(ERROR) else super().format(record))


class _RedactedJson(JsonFormatter):
    def process_log_record(self, log_data: dict[str, Any]) -> dict[str, Any]:
        """Take secrets out of the texts of a line."""
        line: dict[str, Any] = redacted_all(super().process_log_record(log_data))
        return line


def _json_formatter() -> JsonFormatter:
    return _RedactedJson(
        "{levelname}{name}{message}",
        style="{",
        rename_fields={
            "levelname": "level",
            "name": "logger",
            "message": "event",
            "exc_info": "trace",
        },
        timestamp="time",
    )
