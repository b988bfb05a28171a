"""Durations as people write them."""

_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1))


def human_duration(duration_ms: int) -> str:
    """Return the shortest exact text in one unit: 604800000 is "7d", 90000 is "90s"."""
    for unit, size_ms in _UNITS:
        if duration_ms % size_ms == 0 and duration_ms != 0:
            return f"{duration_ms // size_ms}{unit}"
    return "0s"
