"""The log of a worker, as text and as JSON."""

import json
import logging
import logging.config
from datetime import datetime

import pytest

from slidestat.errors import SlidestatError
from slidestat.log import LogForm, json_logging, log_event, logging_to_stderr, tell


def logged(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def work(form: LogForm) -> None:
    """A worker that ends with an error of its user's."""
    with logging_to_stderr(form):
        log_event("ready", "orders: ready, partitions: 0", partitions=[0])
        log_event("partition opened", topic="e\nv\u2028", partition=0, offset=7)
        raise SlidestatError("No topic.", "Make it.")


def test_text_is_for_a_person(capsys: pytest.CaptureFixture[str]) -> None:
    """The time and the text, and nothing of an event that has none; an error is left to the
    command, and one that is logged begins as the command's do.
    """
    before = datetime.now().replace(microsecond=0)
    with pytest.raises(SlidestatError, match="No topic"):
        work(LogForm.TEXT)
    told = capsys.readouterr().err
    at, text = datetime.fromisoformat(told[:19]), told[19:]
    assert text == " orders: ready, partitions: 0\n"
    assert before <= at <= datetime.now()
    with logging_to_stderr(LogForm.TEXT):
        log_event("stopped", "error: No topic.\nwhat to do: Make it.")
    assert capsys.readouterr().err == "error: No topic.\nwhat to do: Make it.\n"


def test_json_is_an_event_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Each event with its level, time and fields, whatever characters are in them; what ends the
    worker is the last one.
    """
    with pytest.raises(SystemExit) as ended:
        work(LogForm.JSON)
    assert ended.value.code == 2
    ready, opened, stopped = logged(capsys)
    assert (ready["event"], ready["partitions"]) == ("ready", [0])
    assert (opened["event"], opened["level"]) == ("partition opened", "INFO")
    assert (opened["topic"], opened["partition"], opened["offset"]) == ("e\nv\u2028", 0, 7)
    assert str(opened["time"]).endswith("+00:00")
    assert (stopped["event"], stopped["level"]) == ("stopped", "ERROR")
    assert (stopped["error"], stopped["advice"]) == ("No topic.", "Make it.")


def test_a_trace_stays_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """An exception that nobody foresaw ends with status 1, and its trace is a field."""
    with pytest.raises(SystemExit) as ended, logging_to_stderr(LogForm.JSON):
        raise ZeroDivisionError
    assert ended.value.code == 1
    (stopped,) = logged(capsys)
    assert "ZeroDivisionError" in str(stopped["trace"])


def test_the_logger_is_left_as_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    """A command in the same process, or a program with a log of its own, is not changed by it."""
    logger = logging.getLogger("slidestat")
    before = logger.handlers[:], logger.level, logger.propagate
    with logging_to_stderr(LogForm.TEXT):
        assert not logger.propagate
    assert (logger.handlers, logger.level, logger.propagate) == before
    tell("waiting", "waiting for it ...")
    assert capsys.readouterr().err == "waiting for it ...\n"


def test_warnings_of_libraries_are_events_too(capsys: pytest.CaptureFixture[str]) -> None:
    """With the configuration that a worker in JSON gives to Faust."""
    before = logging.root.handlers[:], logging.root.level
    try:
        logging.config.dictConfig(json_logging())
        logging.getLogger("aiokafka").warning("Heartbeat failed: %s", "gone")
        logging.getLogger("aiokafka").info("not told")
        (line,) = logged(capsys)
    finally:
        logging.root.handlers[:], level = before[0], before[1]
        logging.root.setLevel(level)
    assert (line["logger"], line["event"]) == ("aiokafka", "Heartbeat failed: gone")
