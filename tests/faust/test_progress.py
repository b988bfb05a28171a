"""What a worker tells while it works."""

import asyncio

import pytest

from slidestat.engine.checkpoints.checkpoint import Counters
from slidestat.faust import progress
from slidestat.faust.progress import Progress
from slidestat.log import LogForm, logging_to_stderr
from slidestat.schemas.dead_letter import Reason


@pytest.mark.asyncio
async def test_the_last_records_are_told_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first flush is told at once, those soon after it in one line, with nothing to follow."""
    monkeypatch.setattr(progress, "_EVERY_S", 0.05)
    with logging_to_stderr(LogForm.TEXT):
        told = Progress("t")
        for read in (1, 2, 3):
            told.read(1)
            told.flushed(Counters(read=read, counted=read), 0)
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert "t: 1 record read" in said
        while not (said := capsys.readouterr().err):
            await asyncio.sleep(0.01)
        assert said.count("\n") == 1
        assert "t: 3 records read" in said
        told.flushed(Counters(read=3, counted=3), 0)
        await asyncio.sleep(0.1)
        assert capsys.readouterr().err == ""


def said_of(capsys: pytest.CaptureFixture[str], *flushed: Counters) -> str:
    """What is told of flushes with these counters, each told at once."""
    told = Progress("t")
    for counters in flushed:
        told._told_at = float("-inf")
        told.read(10)
        told.flushed(counters, 0)
    return capsys.readouterr().err


def test_a_worker_that_can_count_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """Where each record was refused, it is said once what comes of it; where one counted, never."""
    with logging_to_stderr(LogForm.TEXT):
        for counted in (0, 1):
            said = said_of(
                capsys,
                *(Counters(read=read, counted=counted, dead=read - counted) for read in (10, 20)),
            )
            assert said.count("records read") == 2
            assert said.count("no record could be counted") == (counted == 0)


def test_reasons_are_told_with_their_counts(capsys: pytest.CaptureFixture[str]) -> None:
    """All since the start, whenever there are more, with a command that shows them; late ones are
    no dead letters.
    """
    told = Progress("t", "slidestat dlq show t.toml")
    with logging_to_stderr(LogForm.TEXT):
        for reasons in (
            [Reason.NOT_JSON, *[Reason.BAD_TIME] * 1_000, Reason.LATE],
            [],
            [Reason.LATE],
        ):
            told.refused(reasons)
            told.read(10)
            told._told_at = float("-inf")
            told.flushed(Counters(read=1_000, counted=1), 0)
    said = capsys.readouterr().err
    line = "t: dead letters since the start: 1,000 bad-time, 1 not-json"
    assert said.count(f"{line}; `slidestat dlq show t.toml` shows them\n") == 1
    assert said.count("dead letters since") == 1


def test_many_late_records(capsys: pytest.CaptureFixture[str]) -> None:
    """Where more than one record in twenty comes too late, it is said once what would help."""
    with logging_to_stderr(LogForm.TEXT):
        for late in (1, 2):
            said = said_of(
                capsys, *(Counters(read=read, counted=read - late, late=late) for read in (20, 30))
            )
            assert said.count("records read") == 2
            assert said.count("slidestat init") == (late == 2)


def test_a_condition_that_nothing_meets(capsys: pytest.CaptureFixture[str]) -> None:
    """Where each event was passed over, it is said once; where one met it, never."""
    with logging_to_stderr(LogForm.TEXT):
        for counted in (0, 1):
            said = said_of(
                capsys,
                *(Counters(read=n, counted=counted, passed_over=n - counted) for n in (10, 20)),
            )
            assert said.count("passed over") == 2
            assert said.count("no event so far meets the condition") == (counted == 0)


def test_fields_that_are_lacked_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    """How many events each statistic left out; where it is all of them, once, with what may be
    wrong.
    """
    with logging_to_stderr(LogForm.TEXT):
        for counted in (4, 5):
            left_out = {"sum": 4, "mean": 4, "top": 1}
            said = said_of(
                capsys,
                *(Counters(read=read, counted=counted, left_out=left_out) for read in (10, 20)),
            )
            assert said.count("fields lacked by 4 for sum, mean; 1 for top;") == 2
            assert said.count("no event so far has the field of sum, mean") == (counted == 4)


def test_a_sequence_has_any_number(capsys: pytest.CaptureFixture[str]) -> None:
    """Numbers of a sequence go up to 2^53, and are no dates, however large they are."""
    with logging_to_stderr(LogForm.TEXT):
        for newest in (41, 2**53 - 1):
            told = Progress("t")
            told.read(1)
            told.flushed(Counters(read=1, counted=1), newest)
            assert f"newest event {newest:,}\n" in capsys.readouterr().err
