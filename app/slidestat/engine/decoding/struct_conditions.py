"""Conditions over records that msgspec has decoded.

A record that the reader refuses is judged here on its own, whatever is in it: it may be one that
is not asked for.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from slidestat.declare.fields import FieldPath
from slidestat.declare.topology import Topology
from slidestat.engine.decoding.conditions import Conditions, Judged
from slidestat.engine.decoding.record_type import reader, struct_of
from slidestat.engine.decoding.struct_values import StructValues, WrittenNumbers, column_of

Float64s = npt.NDArray[np.float64]

_BEYOND = 10**400


class StructConditions:
    """A topology's conditions over structs."""

    def __init__(self, topology: Topology, record: type[msgspec.Struct]) -> None:
        self._conditions = Conditions(topology)
        self._values = StructValues(topology, record, self._conditions.fields)
        paths = dict.fromkeys(path for path, _ in self._conditions.fields)
        # Each on its own: JSON may have numbers that Python reads none of.
        alone = struct_of(dict.fromkeys(paths, msgspec.Raw), paths)
        self._decode = msgspec.json.Decoder(alone).decode
        self._read_alone = {path: reader(alone, path) for path in paths}

    def __bool__(self) -> bool:
        return bool(self._conditions)

    def of(
        self, events: Sequence[Any], numbers: Mapping[FieldPath, Float64s], written: WrittenNumbers
    ) -> Judged:
        """Judge events, as the reader's type has them, by the conditions; `numbers` are those that
        are read already.
        """
        return self._conditions.judged(len(events), self._values.of(events, numbers, written))

    def of_record(self, record: bytes) -> Judged | None:
        """Evaluate the conditions for one record; return None if their fields cannot be read."""
        try:
            event = self._decode(record)
            found = {path: _value(read(event)) for path, read in self._read_alone.items()}
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return None
        written = WrittenNumbers([record], np.zeros(1, np.int64))
        columns = {
            (path, sort): column_of(sort, [found[path]], written.of(path))
            for path, sort in self._conditions.fields
        }
        return self._conditions.judged(1, columns)


def _value(raw: msgspec.Raw | None) -> object:
    """Return what JSON writes; of a number beyond all doubles, one that is such, too."""
    if raw is None:
        return None
    try:
        return msgspec.json.decode(raw)
    except msgspec.ValidationError:  # All that it can be is out of range.
        return _BEYOND
