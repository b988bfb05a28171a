"""From records to columns of events; what cannot be read or counted is refused."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slidestat.declare.columns import MAX_ITEM_LENGTH, Limits
from slidestat.declare.fields import field_text
from slidestat.declare.topology import Topology
from slidestat.engine.decoding.binary_column import BinaryColumn
from slidestat.engine.decoding.computed_columns import too_long
from slidestat.engine.decoding.conditions import Judged, LackedFields
from slidestat.engine.decoding.event_columns import (
    EventColumns,
    FieldColumns,
    RecordReader,
    Refusal,
    without,
)
from slidestat.engine.decoding.formats.source_schemas import (
    SourceSchemas,
    framed_by_headers,
    names_key_schema,
)
from slidestat.engine.decoding.formats.translations import TranslatedReader, translation_of
from slidestat.engine.decoding.scan_reader import ScanPlan, ScanReader
from slidestat.engine.decoding.struct_reader import StructReader
from slidestat.engine.decoding.times import NOT_A_TIME
from slidestat.engine.events import numbered_texts, texts
from slidestat.engine.records import NO_TIME, Headers, RecordBatch
from slidestat.schemas.dead_letter import Reason
from slidestat.schemas.event import MAX_KEY_LENGTH, remark_on_seconds

_HAS_SCHEMA = "it has a schema of its own, and only plain text is read: name a field"
_NOT_READABLE = {
    "avro": Reason.NOT_AVRO,
    "protobuf": Reason.NOT_PROTOBUF,
    "json-schema": Reason.NOT_JSON,
    "json": Reason.NOT_JSON,
}


def fastest_reader(topology: Topology, schemas: SourceSchemas | None = None) -> RecordReader:
    """Return the fastest reader of a topology's records; `schemas` are those of the records."""
    by_structs, plan = StructReader(topology), ScanPlan.of(topology)
    json = by_structs if plan is None else ScanReader(topology, plan, by_structs)
    if topology.reads_plain_json:
        return json
    translation = translation_of(topology, schemas or SourceSchemas())
    return TranslatedReader(translation, json, _NOT_READABLE[topology.source_format])


class EventDecoder:
    """A decoder of a topology's events. About 0.2 microseconds an event whose record is plain."""

    def __init__(
        self,
        topology: Topology,
        reader: RecordReader | None = None,
        schemas: SourceSchemas | None = None,
    ) -> None:
        """Create the decoder; `reader` is the fastest one by default; `schemas` are those of the
        source's records, if the topology reads any.
        """
        self._reader = reader or fastest_reader(topology, schemas)
        self._topology = topology
        self._schemas = schemas
        self._is_framed = topology.is_framed
        self._has_framed_keys = topology.source_format != "json"
        self._chosen_columns = topology.chosen_columns
        # Whether events have their keys; those of a topology without them have none.
        self.reads_keys = not topology.publishes_partitions
        self._times = topology.times
        self._key_name = topology.key_name
        self._time_name = topology.time_name
        self._number_columns = topology.columns.numbers
        self._item_names = [field_text(column.path) for column in topology.columns.items]
        self._lacking = LackedFields(topology)
        self._passes_tombstones_over = topology.passes_tombstones_over
        self._chosen_computed = topology.chosen_computed
        # Limits of what is computed are checked here, and those of all doubles, beyond which whole
        # numbers are; of chosen columns after the choice.
        self._checked_numbers = [
            place
            for place, column in enumerate(topology.columns.numbers)
            if (column.path in topology.computed_fields or (column.limits or Limits()).are_any)
            and place not in topology.chosen_columns
        ]

    def of(self, topology: Topology) -> "EventDecoder":
        """Return a decoder of another topology on the same source."""
        return EventDecoder(topology, schemas=self._schemas)

    def decode(
        self,
        records: Sequence[bytes | None],
        keys: Sequence[bytes | None] = (),
        timestamps: npt.ArrayLike = (),
        headers: Sequence[Headers] | None = None,
    ) -> EventColumns:
        """Return the columns of the readable records and a refusal for each of the others; never
        raises.

        `keys`, `timestamps` and `headers` are those of the records, for a topology that reads them.
        """
        if self._is_framed:
            records = framed_by_headers(records, headers)
        read = self._reader.read(records)
        rows, times = read.rows, read.times
        refusals, passed_over = read.refusals, read.passed_over
        if refusals and self._passes_tombstones_over:
            tombstones = [r.row for r in refusals if r.reason is Reason.NULL_RECORD]
            refusals = [r for r in refusals if r.reason is not Reason.NULL_RECORD]
            passed_over = [*passed_over, *tombstones]
        if times is None:
            times = np.asarray(timestamps, np.int64)[rows]
        errors: dict[int, Refusal] = {}
        outside = (times < self._times.earliest) | (times >= self._times.latest)
        for place in np.flatnonzero(outside & (times != NOT_A_TIME)).tolist():
            remark = remark_on_seconds(int(times[place])) if read.times is None else ""
            detail = f"{self._time_name}: {times[place]} ms is not from 1980 to 2100{remark}"
            errors[place] = Refusal(int(rows[place]), Reason.BAD_TIME, detail)
        columns = EventColumns(
            rows=rows,
            keys=self._keys(read, keys, headers, errors),
            times=times,
            numbers=read.numbers,
            items=read.items,
            refusals=refusals,
        )
        for place, reason, detail in self._computed_errors(read, columns):
            errors.setdefault(place, Refusal(int(rows[place]), reason, detail))
        for name, items in zip(self._item_names, columns.items, strict=True):
            for place in _too_long(items, MAX_ITEM_LENGTH):
                detail = f"{name}: {too_long(MAX_ITEM_LENGTH)}"
                errors.setdefault(place, Refusal(int(rows[place]), Reason.BAD_ITEM, detail))
        for place, detail in self._lacking.of_no_use(columns.numbers, columns.items):
            errors.setdefault(place, Refusal(int(rows[place]), Reason.MISSING_FIELD, detail))
        if read.judged is not None:
            return self._chosen(columns, errors, read.judged, passed_over)
        if passed_over:
            columns = replace(
                columns,
                passed_over=np.array(passed_over, np.int64),
                passed_over_times=np.full(len(passed_over), NO_TIME, np.int64),
            )
        return without(columns, errors) if errors else columns

    def decode_batch(self, batch: RecordBatch) -> EventColumns:
        """Return the columns of a batch, also where they were decoded ahead."""
        ahead: EventColumns | None = batch.decoded.pop(id(self._topology), None)
        return ahead or self.decode(batch.values, batch.keys, batch.timestamps, batch.headers)

    def decode_ahead(self, batch: RecordBatch) -> None:
        """Decode a batch for the next decoder of this very topology that is given it.

        Each thread needs a decoder of its own: readers have room that they use again.
        """
        batch.decoded[id(self._topology)] = self.decode_batch(batch)

    def _keys(
        self,
        read: FieldColumns,
        keys: Sequence[bytes | None],
        headers: Sequence[Headers] | None,
        errors: dict[int, Refusal],
    ) -> pa.Array:
        """Return the events' keys; errors of the records' own keys are added to `errors`."""
        if read.keys is not None:
            for place in _too_long(read.keys, MAX_KEY_LENGTH):
                detail = f"{self._key_name}: {too_long(MAX_KEY_LENGTH)}"
                errors[place] = Refusal(int(read.rows[place]), Reason.BAD_KEY, detail)
            return read.keys
        if not self.reads_keys:
            return pa.repeat(pa.scalar("", pa.large_string()), len(read.rows))
        own = BinaryColumn.of(keys).take(read.rows).as_arrow().dictionary_encode("encode")
        checked = [
            _key_text(key, may_be_framed=self._has_framed_keys)
            for key in own.dictionary.to_pylist()
        ]
        places = own.indices.to_numpy()
        is_wrong = np.array([error != "" for _, error in checked], bool)[places]
        for place in np.flatnonzero(is_wrong).tolist():
            detail = f"{self._key_name}: {checked[places[place]][1]}"
            errors[place] = Refusal(int(read.rows[place]), Reason.BAD_KEY, detail)
        if self._has_framed_keys and headers is not None:
            for place, row in enumerate(read.rows.tolist()):
                if headers[row] and names_key_schema(headers[row]):
                    errors[place] = Refusal(row, Reason.BAD_KEY, f"{self._key_name}: {_HAS_SCHEMA}")
        return numbered_texts(places, texts([text for text, _ in checked]))

    def _computed_errors(
        self, read: FieldColumns, columns: EventColumns
    ) -> Iterator[tuple[int, Reason, str]]:
        """Yield place and reason of each event without a value in a computed field that is used."""
        for path, errors in read.errors.items():
            taken = np.ones(len(read.rows), bool)
            if read.judged is not None and path in self._chosen_computed:
                chosen_by = self._chosen_computed[path]
                taken = np.logical_or.reduce([read.judged.conditions[c] for c in chosen_by])
            for place, (reason, detail) in sorted(errors.items()):
                if taken[place]:
                    yield place, reason, detail
        for number in self._checked_numbers:
            yield from self._beyond(number, columns.numbers[number])

    def _chosen(
        self,
        columns: EventColumns,
        errors: dict[int, Refusal],
        judged: Judged,
        passed_over: Sequence[int],
    ) -> EventColumns:
        """Return the events that are counted; numbers that no statistic takes in become NaN."""
        rows = columns.rows
        for place, detail in judged.errors.items():
            errors[place] = Refusal(int(rows[place]), Reason.NOT_COMPUTABLE, detail)
        numbers = list(columns.numbers)
        for number, conditions in self._chosen_columns.items():
            taken = np.logical_or.reduce([judged.conditions[place] for place in conditions])
            numbers[number] = np.where(taken, numbers[number], np.nan)
            for place, reason, detail in self._beyond(number, numbers[number]):
                errors.setdefault(place, Refusal(int(rows[place]), reason, detail))
        is_other = ~judged.counted
        is_other[[*judged.errors]] = False
        others = np.flatnonzero(is_other)
        errors = {place: error for place, error in errors.items() if not is_other[place]}
        times = columns.times[others]
        timed = (times >= self._times.earliest) & (times < self._times.latest)
        every = np.concatenate([rows[others], np.array(passed_over, np.int64)])
        their_times = np.full(len(every), NO_TIME, np.int64)
        their_times[: len(others)][timed] = times[timed]
        chosen = replace(
            columns,
            numbers=tuple(numbers),
            conditions=judged.conditions,
            passed_over=every,
            passed_over_times=their_times,
        )
        return without(chosen, errors, others)

    def _beyond(
        self, number: int, values: npt.NDArray[np.float64]
    ) -> Iterator[tuple[int, Reason, str]]:
        """Yield the place and the reason of each value that a column cannot take."""
        column = self._number_columns[number]
        limits = column.limits or Limits()
        for place in np.flatnonzero((values < limits.least) | (values > limits.most)).tolist():
            sign, limit = (">=", limits.least) if values[place] < 0 else ("<=", limits.most)
            negative = sign == ">=" and limits.least == 0
            reason = Reason.NEGATIVE_VALUE if negative else Reason.VALUE_TOO_LARGE
            yield place, reason, f"{field_text(column.path)}: Expected `float` {sign} {limit}"


def _too_long(found: pa.Array, most: int) -> list[int]:
    """Return the places of texts, numbered or not, that are too long, as whole numbers may be."""
    is_numbered = pa.types.is_dictionary(found.type)
    different = found.dictionary if is_numbered else found
    if not pc.any(pc.greater(pc.binary_length(different), most)).as_py():
        return []
    is_long = pc.fill_null(pc.greater(pc.utf8_length(different), most), False)
    places: list[int] = np.flatnonzero(
        is_long.take(found.indices) if is_numbered else is_long
    ).tolist()
    return places


def _key_text(key: bytes | None, *, may_be_framed: bool) -> tuple[str, str]:
    """Return a record's own key as text, and what is wrong with it, "" if nothing."""
    if key is None:
        return "", "the record has no key"
    if may_be_framed and key.startswith(b"\0"):
        return "", _HAS_SCHEMA
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return "", "it is not UTF-8"
    if not 1 <= len(text) <= MAX_KEY_LENGTH:
        return "", f"it has {len(text)} characters, not 1 to {MAX_KEY_LENGTH}"
    return text, ""
