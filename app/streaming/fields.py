"""Where a record keeps something: the path of a field in its JSON object."""

from collections.abc import Iterable, Sequence

from app.errors import SlidestatError

# "bytes" and "request.bytes" are paths; a name that has a dot is written as a list: ["http.bytes"]
Field = str | Sequence[str]
FieldPath = tuple[str, ...]


def field_path(field: Field, what: str) -> FieldPath:
    """The names to follow, outermost first; raises SlidestatError, naming `what`, for no path."""
    names = tuple(field.split(".")) if isinstance(field, str) else field
    listed = isinstance(names, Sequence) and not isinstance(names, bytes)
    if not listed or not names or not all(isinstance(name, str) and name for name in names):
        raise SlidestatError(
            f"{what} is {field!r}, which is no field's path.",
            'Write "bytes", or "request.bytes" for a field of a nested object.',
        )
    return tuple(names)


def field_text(path: FieldPath) -> str:
    """The path as people write it."""
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
