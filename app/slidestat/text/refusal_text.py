"""Reasons of refusals for people: how many there are of each, and what to do about one."""

from collections.abc import Mapping

from slidestat.schemas.dead_letter import Reason

_ADVICE = {
    Reason.NULL_RECORD: 'With tombstones = "pass-over", records without a value are no letters.',
    Reason.NOT_JSON: 'Check source_format: what a schema registry\'s clients write is "avro",'
    ' "protobuf" or "json-schema".',
    Reason.NOT_AVRO: "Check source_format and the schema against what the producer writes.",
    Reason.NOT_PROTOBUF: "Check source_format and the schema against what the producer writes.",
    Reason.BAD_SCHEMA: "Check --schema-registry, and what the producer registers there.",
    Reason.MISSING_FIELD: "Check the names of key_field, time_field and the statistics' fields.",
    Reason.WRONG_TYPE: "Name a field that has what is read, or compute one with `computed`.",
    Reason.BAD_KEY: "Name a key_field of texts of 1 to 256 characters, or of whole numbers.",
    Reason.BAD_TIME: 'Check time_field, and time_format: "ms", "s", "us", "ns", "iso8601".',
    Reason.FROM_THE_FUTURE: "Check time_field, time_format, and the Kafka timestamps that the"
    " producer gives its records; `ahead` says by how much a time may lie after its own.",
    Reason.NEGATIVE_VALUE: "Name a field that is never negative, or a statistic that takes such.",
    Reason.VALUE_TOO_LARGE: "Name another field, or give the statistic fewer `decimals`.",
    Reason.BAD_ITEM: "Name a field of shorter items, or compute one with `computed`.",
    Reason.NOT_COMPUTABLE: "Check conditions and computed fields against a record.",
    Reason.WINDOW_FULL: "Give the statistic fewer `decimals`, or a shorter span.",
}


def reasons_text(reasons: Mapping[Reason, int]) -> str:
    """Return the count of each reason, the most frequent first: 12 bad-time, 3 not-json."""
    most = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count:,} {reason.value}" for reason, count in most)


def advice_on(reason: Reason) -> str:
    """Return what to do where all records are refused for one reason."""
    return f"{_ADVICE[reason]} " if reason in _ADVICE else ""
