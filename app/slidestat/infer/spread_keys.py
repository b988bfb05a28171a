"""Whether the records of a key lie in several partitions, as far as a sample shows."""

from slidestat.declare.fields import FieldPath
from slidestat.infer.guesses import Guess
from slidestat.infer.sampling import Sample, SampledRecord
from slidestat.infer.survey import as_object, key_text

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
