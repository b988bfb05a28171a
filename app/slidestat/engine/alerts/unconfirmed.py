"""Changes of alerts that were written provisionally, and are not final yet.

Each is written once more at its tick, with its final state. A worker that is killed in between must
not forget it. So a change is noted first, in a row of the partition's table, one for each key; it
is written only once that row is durable. The row is deleted with the snapshot that follows the
final record.
"""

from collections.abc import Collection, Iterable

import msgspec

from slidestat.engine.emissions.output_records import AlertRecord
from slidestat.engine.keys.key_timers import Place
from slidestat.engine.records import NO_TIME
from slidestat.errors import SlidestatError

_decode = msgspec.msgpack.Decoder(dict[int, list[bytes]]).decode


class Unconfirmed:
    """The ids of the alerts that were written provisionally, by key and tick, and the records that
    wait until they are noted.
    """

    def __init__(self, rows: Iterable[tuple[str, bytes]] = (), settled: int = NO_TIME) -> None:
        """Restore from the rows of keys; ticks up to `settled` are final."""
        try:
            self.of = {
                key: {tick: set(alerts) for tick, alerts in _decode(row).items()}
                for key, row in rows
            }
        except msgspec.DecodeError as error:
            raise SlidestatError(
                "A stored note of provisional alerts is damaged.",
                "Delete the worker's data folder; it is restored from the changelog.",
            ) from error
        self._changed: set[str] = set()
        # Records to be written: noted since the last snapshot, noted in it, and noted durably.
        self._noted: list[AlertRecord] = []
        self._in_snapshot: list[AlertRecord] = []
        self._durable: list[AlertRecord] = []
        self._settled = settled
        self._settle(settled)

    def note(self, place: Place, alert: bytes, record: AlertRecord) -> None:
        """Note a change that is to be written provisionally."""
        tick, key = place
        self.of.setdefault(key, {}).setdefault(tick, set()).add(alert)
        self._changed.add(key)
        self._noted.append(record)

    def to_write(self) -> list[AlertRecord]:
        """Take the records whose notes are durable."""
        durable, self._durable = self._durable, []
        return durable

    def start_anew(self) -> None:
        """Drop the records that wait, as new events may change them. A change that is noted stays:
        at its tick the alert's state is written, whether or not one was written before.
        """
        self._noted, self._in_snapshot, self._durable = [], [], []

    @property
    def waits(self) -> bool:
        """Return whether records wait until they are noted durably."""
        return bool(self._noted or self._in_snapshot)

    def at(self, place: Place) -> Collection[bytes]:
        """Return the ids of the alerts that were written provisionally at a place."""
        tick, key = place
        return self.of.get(key, {}).get(tick, ())

    def settle(self, place: Place) -> None:
        """Note that what was written at a place is final."""
        tick, key = place
        ticks = self.of.get(key)
        if ticks is not None and ticks.pop(tick, None) is not None:
            self._changed.add(key)
            if not ticks:
                del self.of[key]

    def changes(self, settled: int) -> dict[str, bytes | None]:
        """Return the rows that have changed since the last call, None for one to be deleted; ticks
        up to `settled` are final. They must be durable before `written` is called.
        """
        if settled > self._settled:
            self._settle(settled)
        rows: dict[str, bytes | None] = dict.fromkeys(sorted(self._changed))
        for key in rows.keys() & self.of.keys():
            of_key = sorted(self.of[key].items())
            rows[key] = msgspec.msgpack.encode({tick: sorted(alerts) for tick, alerts in of_key})
        self._changed = set()
        self._in_snapshot += self._noted
        self._noted = []
        return rows

    def written(self) -> None:
        """Note that the last changes are durable."""
        self._durable += self._in_snapshot
        self._in_snapshot = []

    def _settle(self, settled: int) -> None:
        self._settled = settled
        for key in list(self.of):
            for tick in [tick for tick in self.of[key] if tick <= settled]:
                self.settle((tick, key))
