"""Where a record keeps something: the path of a field in its JSON object."""

import re
from collections.abc import Iterable, Sequence

import msgspec

from slidestat.errors import SlidestatError

# "bytes" and "request.bytes" are paths; a name that has a dot is written as a list: ["http.bytes"],
# which may itself be a text, as it is on a command line.
Field = str | Sequence[str]
FieldPath = tuple[str, ...]

# Instead of a field: the key and the timestamp that Kafka keeps of the record itself.
RECORD_KEY = "kafka:key"
RECORD_TIMESTAMP = "kafka:timestamp"

# Operators of expressions. A name with such a sign is written as a list, as is one with a dot.
_OPERATOR = re.compile(r"[+*/|]")

TIME_IS_READ = (
    "Times are read, not computed: name a field, such as time or meta.time, and how times are"
    " written in time_format (seconds, milliseconds, microseconds, nanoseconds or ISO 8601). Where"
    f" none fits, take {RECORD_TIMESTAMP!r}, or have producers write one of these."
)
"""The advice where event time would be an expression."""

# Names that msgspec cannot read a field by, and halves of surrogate pairs, which UTF-8 has not.
_UNREADABLE = re.compile(r'["\\\x00-\x1f\ud800-\udfff]')


def field_path(field: Field, what: str) -> FieldPath:
    """Return the names to follow, outermost first; raises SlidestatError, with `what`, for none."""
    if field in (RECORD_KEY, RECORD_TIMESTAMP):
        raise SlidestatError(
            f"{what} is {field!r}, which is not in the events.",
            f"{RECORD_KEY!r} can be a key_field, {RECORD_TIMESTAMP!r} a time_field; a field of such"
            f" a name is written as a list.",
        )
    names = _names(field, what) if isinstance(field, str) else field
    listed = isinstance(names, Sequence) and not isinstance(names, bytes)
    if not listed or not names or not all(isinstance(name, str) and name for name in names):
        raise SlidestatError(
            f"{what} is {field!r}, which is no field's path.",
            'Write "bytes", or "request.bytes" for a field of a nested object.',
        )
    if not all(map(is_readable, names)):
        raise SlidestatError(
            f"{what} is {field!r}: no field is read whose name has a quote, a backslash, a control"
            " character, or half of one.",
            """Write a list as JSON has it, '["id.orig_h"]', or give the field another name.""",
        )
    return tuple(names)


def is_readable(name: str) -> bool:
    """Return whether a field of a name can be read."""
    return bool(name) and not _UNREADABLE.search(name)


def _names(text: str, what: str) -> Sequence[str]:
    """Return the names of a path that is written as one text."""
    if text.startswith("["):
        try:
            return msgspec.json.decode(text, type=list[str])
        except msgspec.DecodeError:
            pass  # A name of which this is the beginning.
    if _OPERATOR.search(text):
        way = TIME_IS_READ
        if what != "time_field":
            way = (
                f'Compute it, computed = ["{text} as NAME"], and write NAME here (+ adds numbers;'
                " texts are joined by ||: a || '+' || b)."
            )
        raise SlidestatError(
            f"{what} is {text!r}, which is an expression and no field's path.",
            f"{way} A field of this very name is written as a list:"
            f" {msgspec.json.encode([text]).decode()}.",
        )
    return text.split(".")


def is_plain(path: FieldPath) -> bool:
    """Return whether a path can be one text: no name has a dot, an operator or a bracket."""
    return not any("." in name or _OPERATOR.search(name) for name in path) and path[0][0] != "["


def path_unless(field: Field, what: str, of_record: str) -> FieldPath | None:
    """Return the names to follow; None where the field is `of_record`, Kafka's own."""
    return None if field == of_record else field_path(field, what)


def field_text(path: FieldPath) -> str:
    """Return the path as people write it."""
    return ".".join(path)


def check_apart(paths: Iterable[FieldPath]) -> None:
    """Raise SlidestatError if one path leads through the field of another."""
    known = set(paths)
    for path in sorted(known):
        for depth in range(1, len(path)):
            if path[:depth] in known:
                raise SlidestatError(
                    f"the field {field_text(path[:depth])!r} is read as a value and as an object"
                    f" (for {field_text(path)!r}).",
                    "Correct the path of one of them.",
                )
