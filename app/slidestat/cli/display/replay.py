"""Format the plan and the result of `slidestat replay`."""

from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec

from slidestat.admin.replay_plan import ReplayPlan
from slidestat.declare.topology import Topology
from slidestat.schemas.event import remark_on_seconds
from slidestat.text import iso_time


def plan_lines(plan: ReplayPlan) -> Iterator[str]:
    """Yield the plan in a few lines."""
    topology = plan.topology
    yield (
        f"reads       up to {plan.records:,} records of {topology.events_topic},"
        f" {len(plan.partitions)} partitions"
    )
    for p in plan.partitions:
        since = _since(p.silent_until)
        yield f"            partition {p.partition}: offsets {p.start:,} to {p.end:,}{since}"
    yield f"writes      {', '.join(_written(topology))}"
    if plan.in_place:
        yield (
            f"sets back   the offsets of the group {topology.application_id} and its states in"
            f" {topology.changelog_topic}"
        )
        yield (
            "            what it has written stays; what is written again has the same keys, so"
            " that compaction or an upsert leaves the new"
        )
    else:
        yield (
            f"keeps       offsets and states of its own, of the group {topology.application_id};"
            " the live group goes on"
        )
    for p in plan.partitions:
        if p.newest_ms is not None:
            yield (
                f"beware      no record of partition {p.partition} has a timestamp from then on:"
                f" its last one has {p.newest_ms} ms"
                f"{remark_on_seconds(p.newest_ms) or f', {iso_time(p.newest_ms)}'}"
            )
    lost = [p for p in plan.partitions if p.oldest > 0 and p.start == p.oldest]
    if lost:
        positions = ", ".join(f"{p.oldest:,} of partition {p.partition}" for p in lost)
        yield (
            f"beware      the broker has deleted the records before {positions}: windows that reach"
            " back there count only what is left"
        )


def plan_json(plan: ReplayPlan) -> str:
    """Return the plan as one JSON object, with the fields of PartitionPlan for each partition."""
    topology = plan.topology
    return msgspec.json.encode(
        {
            "source": topology.events_topic,
            "group": topology.application_id,
            "in_place": plan.in_place,
            "records": plan.records,
            "writes": _written(topology),
            "partitions": plan.partitions,
        }
    ).decode()


def result_lines(plan: ReplayPlan, declared: str) -> Iterator[str]:
    """Yield the result, and the next steps."""
    topology = plan.topology
    yield f"Replayed: {topology.output_topic} is complete up to there."
    if plan.in_place:
        yield f"To go on from there: slidestat run {declared}"
    elif plan.is_moved:
        yield (
            "To keep it up to date beside the live group, which goes on moving the records, run"
            f" the topology with group = {topology.group_name!r}, output = {topology.output!r} and"
            f" source = {topology.source!r}, without repartition."
        )
    else:
        yield (
            f"To keep it up to date beside the live group, run the topology with"
            f" group = {topology.group_name!r} and output = {topology.output!r};"
            " to put it in the other's place, stop both and run it without that output."
        )


def _written(topology: Topology) -> list[str]:
    alerts = [] if topology.alert_topic is None else [topology.alert_topic]
    return [topology.output_topic, topology.late_topic, topology.dead_letter_topic, *alerts]


def _since(silent_until: int | None) -> str:
    if silent_until is None:
        return ""
    moment = datetime.fromtimestamp(silent_until / 1000, UTC).isoformat(timespec="milliseconds")
    return f", emits windows that end after {moment.replace('+00:00', 'Z')}"
