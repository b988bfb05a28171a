"""Which statistics a partition's stored states have, and what becomes of them when others are asked
for.

Nothing is counted again: what is added begins behind all that the partition has read, and what is
removed is dropped. The change must be durable before anything is emitted by it, so that it is the
same after a crash; where it begins follows from what is stored alone.
"""

from collections.abc import Collection
from typing import NamedTuple

from slidestat.declare.alerts import ALERTS_LABEL
from slidestat.declare.statistics import Statistic
from slidestat.declare.topology import Topology
from slidestat.engine.checkpoints.checkpoint import (
    Slots,
    changed,
    decode_checkpoint,
    decode_emitted,
    slots_of,
    split_meanings,
    stored_meaning,
    stored_slots,
)
from slidestat.engine.keys.key_state import number_of_synopses, read_clock
from slidestat.engine.keys.stored_keys import PartitionStore
from slidestat.engine.records import NO_TIME
from slidestat.errors import SlidestatError

_RENAME = "Give the changed topology a new name, which counts from the start of its source."


class KeptStatistics(NamedTuple):
    """The places of synopses in states, () if none ever changed; and whether they are to move."""

    slots: Slots = ()
    is_changed: bool = False


AS_STORED = KeptStatistics()


def kept_statistics(
    topology: Topology, store: PartitionStore, *, may_change: bool
) -> KeptStatistics:
    """Return the statistics of a stored partition; a change costs one look at each of its states.

    Raises SlidestatError where the states are of another topology, but for statistics that
    `may_change`.
    """
    stored = store.checkpoint()
    checkpoint = decode_checkpoint(stored, topology.state_meaning, statistics_change=may_change)
    if stored is None:
        if may_change and next(iter(store.scan()), None) is not None:
            raise SlidestatError(
                f"{topology.name} has stored states of which no checkpoint tells: a worker ended in"
                " the middle of its first flush.",
                "Start it once without --change-statistics, as it was declared before.",
            )
        return KeptStatistics()
    slots, before = stored_slots(stored), stored_meaning(stored)
    now = topology.state_meaning
    if all(before.get(name) == now.get(name) for name in ("statistics", "computed")):
        return KeptStatistics(slots)
    _require_changeable(topology)
    meanings = list(dict.fromkeys(runner.meaning for runner in topology.runners))
    had_slots = bool(slots)
    slots = slots or slots_of(split_meanings(before["statistics"], meanings))
    emitted = decode_emitted(stored, checkpoint)
    newest, next_offset = emitted.max_time, emitted.next_offset
    for _, state in store.scan():
        clock = read_clock(state)
        # States may be written for which there is no checkpoint yet.
        newest, next_offset = max(newest, clock.watermark), max(next_offset, clock.offset + 1)
        if not had_slots and number_of_synopses(state) != len(slots):
            raise SlidestatError(
                f"{topology.name}: nothing stored says which statistics the states have.", _RENAME
            )
    if newest == NO_TIME and not had_slots:
        # No event was counted: all begin together.
        return KeptStatistics((), is_changed=True)
    stored_meanings = {slot.meaning for slot in slots}
    slots = changed(slots, meanings, newest + 1, next_offset)
    _require_same_fields(topology, stored_meanings, before.get("computed", ""))
    _require_other_alerts(topology, stored_meanings, ALERTS_LABEL in before)
    return KeptStatistics(slots, is_changed=True)


def _require_changeable(topology: Topology) -> None:
    what = ""
    if topology.publish or topology.synopses:
        what = "publishes its synopses, whose readers take windows for whole"
    elif topology.is_sequence:
        what = "has numbers of a sequence for event times"
    if what:
        raise SlidestatError(
            f"{topology.name} {what}: its statistics cannot be changed over a state.",
            _RENAME + (" Name that one in the referee." if topology.publish else ""),
        )


def _require_other_alerts(topology: Topology, stored: Collection[str], had_alerts: bool) -> None:
    """Refuse alerts on what is added, where there were alerts before: one that fires could be of a
    statistic that is replaced, and would never be resolved.
    """
    pairs = zip(topology.labels, topology.runners, strict=True)
    added = {label for label, runner in pairs if runner.meaning not in stored}
    for alert, read in zip(topology.alerts, topology.alert_figures, strict=True):
        of_alert = (topology.figure_sources[part].label for part in read.parts)
        if had_alerts and not added.isdisjoint(of_alert):
            raise SlidestatError(
                f"{topology.name}: the alert {alert.name} reads a statistic that is added or"
                " replaced, and may be firing.",
                "Leave the alert out for the start that changes the statistics, and declare it"
                " again at the next one.",
            )


def _require_same_fields(topology: Topology, stored: Collection[str], computed_before: str) -> None:
    """Refuse a change of all that is kept, or of its fields; `stored` is what is kept now."""
    pairs = zip(topology.statistics, topology.runners, strict=True)
    kept = [statistic for statistic, runner in pairs if runner.meaning in stored]
    if not kept:
        raise SlidestatError(
            f"{topology.name}: none of the stored statistics is declared any more.", _RENAME
        )
    now = topology.computed_texts
    before = split_meanings(computed_before, now)
    changed_fields = {text.rpartition(" as ")[2].strip('"') for text in {*before} ^ {*now}}
    read = {path[0] for path in fields_of(topology, kept)}
    read |= {path[0] for path in (topology.key_path, topology.time_path) if path is not None}
    for name in sorted(changed_fields & read):
        raise SlidestatError(
            f"{topology.name}: the computed field {name} has another expression now, and the"
            " stored states were counted with the old one.",
            "Give the new field another name, or give the changed topology one.",
        )


def fields_of(topology: Topology, statistics: list[Statistic]) -> set[tuple[str, ...]]:
    """Return the fields that statistics read, with those of their and the topology's conditions."""
    paths = {column.path for it in statistics for column in topology.columns_of(it)}
    conditions = [topology.condition, *(it.condition for it in statistics)]
    return paths | {path for it in conditions if it is not None for path, _ in it.fields}
