"""A topology for a topic that was looked at: which fields, which statistics, and why.

Guesses are marked as such, in a file that a person reads before it runs.
"""

from dataclasses import dataclass

from slidestat.declare.fields import RECORD_KEY, FieldPath
from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError
from slidestat.infer.proposed_fields import (
    Ask,
    Doubts,
    Guess,
    common_fields,
    is_measure,
    path_of,
    propose_items,
    propose_key,
    propose_time,
    propose_value,
    some_are_not,
    written,
)
from slidestat.infer.proposed_lengths import Windows, disorder, propose_lateness, propose_windows
from slidestat.infer.sampling import Sample, SampledRecord
from slidestat.infer.survey import Survey, as_object, key_text

# Whether the records of a key lie in several partitions, as far as a sample shows.

# How much later than the others a partition may get its records, where nothing is known.
_LEAST_LATENESS = "10s"


def spread_warning(sample: Sample, path: FieldPath | None) -> str | None:
    """Return a warning that the records of a key lie in several partitions, or may; None without
    evidence. The key is in the field at `path`, or the record's own.
    """
    spread = _spread_key(sample, path)
    if spread is not None:
        found = f"The records are not partitioned by the key: those of {spread!r} lie in several."
    elif sample.partitions > 1 and any(record.key is None for record in sample.records):
        found = "There are records that have no Kafka key: those of one key may lie anywhere."
    else:
        return None
    return (
        f"{found} With `repartition = true` the workers move them by the key first; a producer that"
        " sends them under it saves this."
    )


def _spread_key(sample: Sample, path: FieldPath | None) -> str | None:
    first: dict[str, int] = {}
    for record in sample.records:
        key = _key(record, path)
        if key is not None and first.setdefault(key, record.partition) != record.partition:
            return key
    return None


def spread_lateness(lateness: Guess) -> Guess:
    """Return the lateness of a topology whose records are repartitioned, which needs one."""
    if lateness.value != "0s":
        return lateness
    return Guess(_LEAST_LATENESS, "what partitions may differ in, of which the sample says nothing")


def _key(record: SampledRecord, path: FieldPath | None) -> str | None:
    if path is None:
        return key_text(record)
    value: object = as_object(record)
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    is_key = isinstance(value, str | int) and not isinstance(value, bool)
    return str(value) if is_key else None


@dataclass(frozen=True)
class Proposal:
    """A topology that `slidestat init` proposes; `warnings` are for a person to read first."""

    name: str
    source: str
    key: Guess
    time: Guess
    time_format: str
    value: Guess | None
    value_decimals: int
    value_is_signed: bool
    distinct: Guess | None
    top: Guess | None
    lateness: Guess
    repartition: bool
    windows: Windows
    keys_seen: int
    sampled: int
    warnings: tuple[str, ...]
    source_format: str


def propose(sample: Sample, found: Survey, name: str, ask: Ask | None = None) -> Proposal:
    """Return the topology that fits the sample best; `ask` is asked where several fields would do.

    Raises SlidestatError if no record is a JSON object.
    """
    if not found.objects:
        raise SlidestatError(
            f"None of {len(sample.records):,} records of {sample.topic!r} that were looked at is a"
            " JSON object.",
            "Events are JSON objects: `slidestat schema event` shows one.",
        )
    warnings: list[str] = []
    doubts = Doubts(ask, warnings)
    if found.others:
        warnings.append(
            f"{found.others:,} of {len(sample.records):,} sampled records are no JSON objects:"
            " they will be dead letters."
        )
    key, keys_seen = propose_key(sample, found, doubts)
    time, time_format, time_path = propose_time(found, doubts)
    order = disorder(sample, time_path, time_format)
    if order.refused:
        warnings.append(
            f"{order.refused:,} of {len(sample.records):,} sampled events lie more than"
            f" {Topology.ahead} after the time when they were produced: they will be dead letters."
        )
    taken = {key.value, time.value}
    numbers = [f for f in common_fields(found) if is_measure(f) and written(f.path) not in taken]
    value = propose_value(numbers, found, doubts)
    chosen = found.fields[path_of(value.value)] if value is not None else None
    if chosen is not None and chosen.numbers < chosen.present:
        warnings.append(some_are_not(chosen, chosen.present - chosen.numbers, "numbers"))
    texts = [f for f in common_fields(found) if f.texts == f.present and not f.formats]
    texts = [f for f in texts if written(f.path) not in taken and f.longest <= 1_000]
    distinct, top = propose_items(texts, found)
    lateness = Guess(*propose_lateness(order))
    spread = spread_warning(sample, None if key.value == RECORD_KEY else path_of(key.value))
    if spread is not None:
        lateness = spread_lateness(lateness)
        warnings.append(spread)
    return Proposal(
        name=name,
        source=sample.topic,
        key=key,
        time=time,
        time_format=time_format,
        value=value,
        value_decimals=min(chosen.decimals, 6) if chosen is not None else 0,
        value_is_signed=bool(chosen.negatives) if chosen is not None else False,
        distinct=distinct,
        top=top,
        lateness=lateness,
        repartition=spread is not None,
        windows=propose_windows(sample.topic_records, order.length, keys_seen),
        keys_seen=keys_seen,
        sampled=len(sample.records),
        warnings=tuple(warnings),
        source_format=sample.source_format,
    )
