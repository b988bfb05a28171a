"""All keys of a batch in one call: frequent items with their texts, events in and lists out.

`NamedItems` is the same for a single key.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from slidestat.synopses.blocks.columns import Integers
from slidestat.synopses.blocks.memory import FREQUENT
from slidestat.synopses.blocks.parameters import FrequentParameters
from slidestat.synopses.blocks.run import RunResult, run_columns, summary_error
from slidestat.synopses.core import error_codes
from slidestat.synopses.core.batch import integers, split
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.keyed import KeyedBatch, keyed_batch
from slidestat.synopses.core.wire import Bytes
from slidestat.synopses.distinct.item_ids import item_ids
from slidestat.synopses.exponential_histogram.codec import TIME_MAX
from slidestat.synopses.exponential_histogram.kernel import Floats
from slidestat.synopses.frequent.frequent_answer import PARTS
from slidestat.synopses.frequent.named_codec import (
    IN_BLOCKS,
    IN_PAIRS,
    MAX_TEXT,
    name_ids,
    open_inner,
    read_texts,
    write_named,
)
from slidestat.synopses.frequent_pairs.memory import PAIRED
from slidestat.synopses.frequent_pairs.parameters import PairedParameters
from slidestat.synopses.frequent_pairs.run import PairedRun, run_pairs

ItemParameters = PairedParameters | FrequentParameters
"""Named items are kept in pairs, or in blocks, as they were before."""

_CUT = "…".encode()


@dataclass(frozen=True)
class NamedBatch:
    """The result of a batch: the new state of each group, and a list for each query and span.

    The list of query q and span k is names[at:to] with the ids items[at:to] and with lowers[at:to]
    and uppers[at:to], in no order to rely on, where at, to = ends[q * spans + k],
    ends[q * spans + k + 1]. unlisted[q, k] is what any other item's count may be at most;
    events_low and events_high bound the window's events.
    """

    states: list[bytes]
    ends: Integers
    names: list[str]
    items: Integers
    lowers: Integers
    uppers: Integers
    unlisted: Integers
    events_low: Integers
    events_high: Integers


@dataclass(frozen=True)
class Known:
    """The texts of the states of a batch: text i is arena[places[0, i]:places[1, i]]."""

    arena: Bytes
    places: Integers

    def text(self, i: int) -> str:
        """Return text i; raises SynopsisError if it is none."""
        try:
            text = self.arena[self.places[0, i] : self.places[1, i]].tobytes()
            return text.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise summary_error(error_codes.CORRUPTED, 0, 0, -1) from None


def encoded(texts: Sequence[str]) -> tuple[Integers, list[bytes]]:
    """Return the ids of texts, and their UTF-8 bytes as they are stored and shown.

    More than MAX_TEXT bytes are cut at the end of a character, and end in an ellipsis instead: the
    id is still that of the whole text. Raises SynopsisError for what is no text.
    """
    try:
        # a lone surrogate, as JSON can have, is a character like any other
        whole = [text.encode("utf-8", "surrogatepass") for text in texts]
    except AttributeError:
        wrong = next(text for text in texts if not isinstance(text, str))
        raise SynopsisError(f"items must be texts, not {wrong!r}") from None
    return item_ids(whole), [text if len(text) <= MAX_TEXT else _cut(text) for text in whole]


def _cut(text: bytes) -> bytes:
    end = MAX_TEXT - len(_CUT)
    while text[end] & 0xC0 == 0x80:
        end -= 1
    return text[:end] + _CUT


def was_cut(text: bytes) -> bool:
    """Whether a stored text may be the start of a longer one, whose id it has."""
    return text.endswith(_CUT) and len(text) > MAX_TEXT - 4


def kinds_of(parameters: ItemParameters) -> tuple[int, int]:
    """Return the kind of named items with these parameters, and that of the states of their ids."""
    return (IN_PAIRS, PAIRED) if isinstance(parameters, PairedParameters) else (IN_BLOCKS, FREQUENT)


def run_ids(
    batch: KeyedBatch, parameters: ItemParameters, ids: Integers, share: float, instead: int
) -> tuple[PairedRun | RunResult, Known]:
    """Run the states of the ids that are in the batch's states; `ids` has those of the events.

    Raises SynopsisError, also for texts that are not one for each id held.
    """
    groups = len(batch.starts) - 1
    error_code, group, a, b, inner, offsets = open_inner(
        batch.arena, batch.offsets, *kinds_of(parameters)
    )
    if error_code == error_codes.OK:
        part = round(share * PARTS)
        inside = replace(batch, arena=inner[: offsets[-1]], offsets=offsets)
        ran: PairedRun | RunResult
        if isinstance(parameters, PairedParameters):
            ran = run_pairs(parameters, inside, ids, part, instead)
        else:
            parts = np.array([part, instead], np.int64)
            ran = run_columns(parameters, inside, ids, parts, True)
        error_code, group, places = read_texts(
            batch.arena, batch.offsets, np.diff(offsets), ran.held[0]
        )
    if error_code != error_codes.OK:
        raise summary_error(error_code, int(a), int(b), int(group) if groups > 1 else -1)
    return ran, Known(batch.arena, places)


def run_named_items_batch(
    parameters: ItemParameters,
    states: Sequence[bytes | None],
    starts: npt.ArrayLike,
    times: npt.ArrayLike,
    codes: npt.ArrayLike,
    texts: Sequence[str],
    query_starts: npt.ArrayLike,
    query_times: npt.ArrayLike,
    spans: npt.ArrayLike,
    share: float,
    advances: npt.ArrayLike | None = None,
    instead: int = 0,
) -> NamedBatch:
    """Feed and ask many summaries of named items at once, one a group (key).

    states, starts, times, query_starts, query_times, spans, advances: as `keyed_batch` has them.
    codes: int64, one a time, the place of the event's item in `texts`. share: as for
    `run_frequent_batch`. A query leaves no trace in the state. instead: where no item has the share
    and counts are exact, list so many that came most often, of equals those of the least ids.

    However the events are split into batches, the states end in the same bytes.

    Raises SynopsisError, and changes nothing, for what `run_frequent_batch` does, and for a code
    that is no place in `texts`. Cost: that of `run_frequent_batch`, O(bytes of texts), and for each
    key that is touched O((items held + events) * log).
    """
    if not (0 <= share <= 1):
        raise SynopsisError(f"a share must be a number from 0 to 1, not {share!r}")
    column = integers("codes", codes)
    if len(column) > 0 and not (column.min() >= 0 and column.max() < len(texts)):
        raise SynopsisError(f"a code must be the place of one of {len(texts)} texts")
    no_values: Floats = np.empty(len(column))
    batch = keyed_batch(
        parameters.span,
        states,
        starts,
        times,
        no_values,
        query_starts,
        query_times,
        spans,
        advances,
    )
    distinct, stored = encoded(texts)
    ids = distinct[column]
    ran, known = run_ids(batch, parameters, ids, share, instead)

    words, code_of_word, uses = np.unique(distinct, return_index=True, return_counts=True)
    word_codes = np.where(uses == 1, code_of_word, -1)
    text_ends = np.zeros(len(stored) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, stored), np.int64, len(stored)), out=text_ends[1:])
    joined = np.frombuffer(bytearray().join(stored), np.uint8)

    def named(asked: Integers, to: Integers, groups: Integers, untils: Integers) -> Integers:
        places: Integers = name_ids(
            ran.before,
            ran.held[0],
            known.arena,
            known.places,
            words,
            word_codes,
            joined,
            text_ends,
            batch.starts,
            batch.times,
            ids,
            column,
            asked,
            to,
            groups,
            untils,
        )
        return places

    groups = np.arange(len(batch.starts) - 1)
    held_to = ran.held[1, 1:]
    places = named(ran.now[: ran.held[1, -1]], held_to, groups, np.full_like(groups, TIME_MAX + 1))
    kind, _ = kinds_of(parameters)
    out, offsets = write_named(
        kind, ran.out, ran.offsets, held_to, places, known.arena, known.places, joined, text_ends
    )
    rows = np.arange(1, len(batch.query_times) + 1)
    listed = named(
        ran.lists[0],
        ran.ends[rows * len(batch.spans)],
        np.repeat(groups, np.diff(batch.query_starts)),
        batch.query_times,
    )
    names = [
        known.text(place) if place >= 0 else stored[-1 - place].decode("utf-8", "surrogatepass")
        for place in listed.tolist()
    ]
    return NamedBatch(split(out, offsets), ran.ends, names, *ran.lists, *ran.facts)
