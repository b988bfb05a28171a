"""Log the progress of a worker: when it is ready, and now and then how far it has come."""

import asyncio
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from msgspec.structs import asdict

from slidestat.engine.checkpoints.checkpoint import Counters
from slidestat.engine.records import NO_TIME
from slidestat.log import log_event
from slidestat.schemas.dead_letter import Reason
from slidestat.schemas.event import EARLIEST_TIME_MS, LATEST_TIME_MS
from slidestat.text import counted, reasons_text, timestamp_text

_EVERY_S = 5.0
# A larger share than one late event in this many is not chance.
_MANY_LATE = 20
_RESTORE_EVERY_S = 2.0


class Progress:
    """The progress of one topology."""

    def __init__(self, topology: str, letter_command: str = "") -> None:
        """Create the progress; `letter_command` is the command that shows the dead letters."""
        self._topology = topology
        self._letter_command = letter_command
        # Since the process began, and those that were logged.
        self._refused: Counter[Reason] = Counter()
        self._told_refused = 0
        self._read = 0
        self._told_read = 0
        self._started = time.monotonic()
        self._told_at = -_EVERY_S  # the first line comes at once
        self._newest = Counters(), NO_TIME
        self._due: asyncio.TimerHandle | None = None
        self._said: set[str] = set()

    def ready(self, partitions: Collection[int]) -> None:
        """Log that the group gave this worker these partitions."""
        held = ", ".join(map(str, sorted(partitions))) or "none (the others hold them all)"
        self._say("ready", f"ready, partitions: {held}", partitions=sorted(partitions))

    def read(self, records: int) -> None:
        """Count records that were taken in."""
        self._read += records

    def refused(self, reasons: Iterable[Reason]) -> None:
        """Count records that were refused, by their reasons; late ones are no dead letters."""
        self._refused.update(reason for reason in reasons if reason is not Reason.LATE)

    def flushed(self, counters: Counters, max_time: int) -> None:
        """Log the progress of durable state, every few seconds, and always the last one."""
        self._newest = counters, max_time
        wait_s = self._told_at + _EVERY_S - time.monotonic()
        if self._read == self._told_read or self._due is not None:
            return
        if wait_s <= 0:
            self._tell()
        else:
            self._due = asyncio.get_running_loop().call_later(wait_s, self._tell)

    def _tell(self) -> None:
        self._due = None
        counters, max_time = self._newest
        now = time.monotonic()
        rate = (self._read - self._told_read) / (now - max(self._told_at, self._started))
        self._told_at, self._told_read = now, self._read
        newest = "none"
        if max_time != NO_TIME:
            newest = _moment(max_time)
        others = f", {counters.passed_over:,} passed over" if counters.passed_over else ""
        others += f", {counters.lost:,} lost" if counters.lost else ""
        left_out = _listed(counters.left_out)
        others += f"; fields lacked by {left_out}" if left_out else ""
        self._say(
            "progress",
            f"{counted(counters.read, 'record')} read of its partitions, {rate:,.0f}/s now;"
            f" {counters.counted:,} counted, {counters.dead:,} dead, {counters.late:,} late"
            f"{others}; newest event {newest}",
            records_per_second=round(rate),
            newest_event_ms=None if max_time == NO_TIME else max_time,
            **asdict(counters),
        )
        if self._refused.total() > self._told_refused:
            self._told_refused = self._refused.total()
            shown = f"; `{self._letter_command}` shows them" if self._letter_command else ""
            self._say(
                "dead letters",
                f"dead letters since the start: {reasons_text(self._refused)}{shown}",
                reasons={reason.value: count for reason, count in self._refused.items()},
            )
        if counters.dead and not (counters.counted or counters.late):
            self._say_once(
                "nothing counted",
                "no record could be counted so far. Once the declaration is corrected, start again:"
                " all is read again under the same name",
            )
        if counters.late * _MANY_LATE > counters.read:
            self._say_once(
                "many late",
                f"{100 * counters.late / counters.read:.0f} % of the records came later than the"
                " topology's `lateness` allows, and are in no figure; `slidestat init TOPIC` says"
                " which lateness would take them in",
            )
        if counters.passed_over and counters.passed_over == counters.read:
            self._say_once(
                "nothing chosen",
                "no event so far meets the condition `where`: check the names and values in it",
            )
        empty = {s: n for s, n in counters.left_out.items() if n == counters.counted}
        if empty:
            self._say_once(
                "statistics of nothing",
                f"no event so far has the field of {', '.join(empty)}: check its name",
                statistics=list(empty),
            )

    def _say_once(self, event: str, text: str, **fields: object) -> None:
        if event not in self._said:
            self._said.add(event)
            self._say(event, text, **fields)

    def _say(self, event: str, text: str, **fields: object) -> None:
        log_event(event, f"{self._topology}: {text}", topology=self._topology, **fields)


def _listed(left_out: Mapping[str, int]) -> str:
    """Return how many events each statistic leaves out as text; equal numbers together."""
    by_count: dict[int, list[str]] = {}
    for statistic, count in left_out.items():
        by_count.setdefault(count, []).append(statistic)
    return "; ".join(f"{count:,} for {', '.join(names)}" for count, names in by_count.items())


def _moment(time_ms: int) -> str:
    if not EARLIEST_TIME_MS <= time_ms < LATEST_TIME_MS:  # A number of a sequence.
        return f"{time_ms:,}"
    return timestamp_text(time_ms)


class RestoreProgress:
    """The progress of restoring tables from changelogs, logged if it takes more than a moment."""

    def __init__(self, records: int) -> None:
        self._records = records
        self._read = 0
        self._started = self._told_at = time.monotonic()

    def read(self, records: int) -> None:
        """Count so many more offsets."""
        self._read += records
        if time.monotonic() >= self._told_at + _RESTORE_EVERY_S:
            self._told_at = time.monotonic()
            log_event(
                "restoring states",
                f"restoring states: {self._read:,} of {self._records:,} changelog records",
                read=self._read,
                records=self._records,
            )

    def done(self) -> None:
        """Log that all have been read."""
        seconds = time.monotonic() - self._started
        log_event(
            "restored states",
            f"restored states from {self._read:,} changelog records in {seconds:.1f} s",
            records=self._read,
            seconds=seconds,
        )
