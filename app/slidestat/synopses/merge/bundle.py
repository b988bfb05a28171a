"""The synopses of several parties that see parts of one logical stream, kept side by side.

Source: the distributed model of Gibbons and Tirthapura 2002, sections 2 and 3.4: parties that see
their own part of a stream alone, and a Referee who answers over the union from what they sent.

A bundle has at most one synopsis of a party, all of one kind and of equal parameters. To merge is
to take the union of the parties; of a party in both, the synopsis that is further on, by its `now`,
then by its bytes. So merging costs no accuracy: README.md, docs/proofs.md.

Parties lag. An answer at a time looks ahead of a part whose `now` is before it, as if no event had
come to that party since; `behind` names these parties, so that the caller can call them stale.

The body (kind 23; envelope and numbers: see wire.py) is, in this order:

    form                                  1 bundle
    number of parties, then of each, by rising name:
        length of its name, the name (UTF-8)
        length of its synopsis, the synopsis
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Generic, NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt

from slidestat.synopses.core import envelope
from slidestat.synopses.core.arrays import Floats, Integers
from slidestat.synopses.core.batch import Answers, Batch, integers, questions
from slidestat.synopses.core.envelope import Body, body_of, damaged, sealed, varint
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.stored import Stored, time_in_range
from slidestat.synopses.distinct.wave import DistinctWave
from slidestat.synopses.exponential_histogram.histogram import ExponentialHistogram
from slidestat.synopses.extremes.extreme import Extreme
from slidestat.synopses.frequent.frequent_items import FrequentItems
from slidestat.synopses.frequent.named_items import NamedItems
from slidestat.synopses.frequent_pairs.paired_items import PairedItems
from slidestat.synopses.lean_distinct.sketch import LeanDistinct
from slidestat.synopses.moments.spread import Spread
from slidestat.synopses.quantiles.quantiles import Quantiles
from slidestat.synopses.sampling.sample import SampleParameters, SlidingSample
from slidestat.synopses.value_histogram.counter_table import CounterTable
from slidestat.synopses.value_histogram.value_histogram import ValueHistogram
from slidestat.synopses.value_quantiles.sketch import ValueQuantiles
from slidestat.synopses.waves.average_wave import AverageWave
from slidestat.synopses.waves.waves import CountWave, PositionWave, SumWave

FAMILIES: tuple[type[Stored[Any]], ...] = (
    ExponentialHistogram,
    CountWave,
    SumWave,
    PositionWave,
    AverageWave,
    Extreme,
    Spread,
    SlidingSample,
    Quantiles,
    FrequentItems,
    ValueHistogram,
    CounterTable,
    DistinctWave,
    NamedItems,
    ValueQuantiles,
    PairedItems,
    LeanDistinct,
)
"""A family that becomes mergeable is a line here, and a module that answers over a union."""

_OF_KIND = {kind: family for family in FAMILIES for kind in family.kinds}


def kind_of(data: bytes) -> int:
    """Return the kind of a stored synopsis that can be merged; SynopsisError for anything else."""
    kind = envelope.kind_of(data)
    if kind not in _OF_KIND:
        raise SynopsisError(f"a synopsis of kind {kind} cannot be merged")
    return kind


def read(data: bytes) -> Stored[Any]:
    """Read a stored synopsis of any kind that can be merged; SynopsisError for anything else."""
    return _OF_KIND[kind_of(data)].from_bytes(data)


def shared(parameters: object) -> object:
    """Return what the parameters of all parts must agree in: all but the seed of a sample."""
    if isinstance(parameters, SampleParameters):
        return replace(parameters, seed=0)
    return parameters


MERGED = 23
BUNDLE, HISTOGRAM = 1, 2
"""Forms of kind 23: parts side by side; one histogram made of them, which is no longer read."""

MAX_NAME = 255


class Part(NamedTuple):
    """A synopsis that a party sent: the party's name, its time, and its bytes."""

    party: str
    now: int
    data: bytes


class Bundle:
    """Synopses of the parties of one logical stream; it never changes, `merge` makes another.

    >>> from slidestat.synopses import CountParameters, ExponentialHistogram
    >>> from slidestat.synopses import Bundle, union_totals
    >>> sent = {}
    >>> for party, times in {"a": [1_000, 2_000], "b": [1_500]}.items():
    ...     visits = ExponentialHistogram.create(CountParameters(epsilon=0.1, span=60_000))
    ...     visits.insert(times)
    ...     sent[party] = visits.to_bytes()
    >>> both = Bundle.of(sent)
    >>> union_totals([both], [both.now], [60_000]).estimates.tolist(), both.behind(both.now)
    ([[3.0]], ('b',))
    """

    def __init__(self, parts: tuple[Part, ...], kind: int, parameters: object) -> None:
        self._parts = parts
        self._kind = kind
        self._parameters = parameters

    @classmethod
    def of(cls, synopses: Mapping[str, bytes]) -> "Bundle":
        """Return the bundle of one stored synopsis of each party; without parties, the empty one.

        Raises SynopsisError for bytes that are no synopsis that can be merged, for kinds or
        parameters that differ (of samples: but the seed, which must), and for names that are empty
        or longer than 255 bytes.
        """
        for party in synopses:
            if not (1 <= len(_name(party)) <= MAX_NAME):
                raise SynopsisError(f"the name of a party is 1 to {MAX_NAME} bytes, not {party!r}")
        return cls._made(sorted(synopses.items(), key=lambda item: _name(item[0])))

    @classmethod
    def from_bytes(cls, data: bytes) -> "Bundle":
        """Read what `to_bytes` wrote; raises SynopsisError for anything else.

        Cost: that of reading each part.
        """
        body = Body(body_of(data, MERGED))
        if body.number(BUNDLE, HISTOGRAM) == HISTOGRAM:
            raise SynopsisError(
                "these bytes hold a merged histogram, which is no longer read: keep the synopses of"
                " the parties, and put those into a bundle"
            )
        number = body.number(most=len(body.array))
        texts = [body.taken(body.number(least=1)) for _ in range(2 * number)]
        names = texts[::2]
        if body.rest() or any(len(name) > MAX_NAME for name in names):
            raise damaged()
        if any(name >= after for name, after in pairwise(names)):
            raise damaged()
        try:
            parties = [name.decode() for name in names]
        except UnicodeDecodeError:
            raise damaged() from None
        return cls._made(list(zip(parties, texts[1::2], strict=True)))

    @classmethod
    def _made(cls, sent: list[tuple[str, bytes]]) -> "Bundle":
        """Return the bundle of what parties sent, by rising name."""
        if not sent:
            return cls((), 0, None)
        kinds = [kind_of(data) for _, data in sent]
        synopses = [read(data) for _, data in sent]
        made_with = [shared(synopsis.parameters) for synopsis in synopses]
        for other in zip(kinds, made_with, strict=True):
            _must_agree((kinds[0], made_with[0]), other)
        _must_draw_apart(sent, kinds[0])
        parts = tuple(
            Part(party, synopsis.now, bytes(data))
            for (party, data), synopsis in zip(sent, synopses, strict=True)
        )
        return cls(parts, kinds[0], made_with[0])

    def to_bytes(self) -> bytes:
        """Return the bundle: equal bundles are equal bytes."""
        pieces = [varint(BUNDLE), varint(len(self._parts))]
        for part in self._parts:
            for text in (_name(part.party), part.data):
                pieces += [varint(len(text)), text]
        return sealed(MERGED, b"".join(pieces))

    def merge(self, *others: "Bundle") -> "Bundle":
        """Return the union; of a party in several, what is further on. SynopsisError as for `of`.

        Cost: O(parties), however large the parts are.
        """
        furthest: dict[str, Part] = {}
        for part in (part for bundle in (self, *others) for part in bundle._parts):
            known = furthest.get(part.party)
            if known is None or (part.now, part.data) > (known.now, known.data):
                furthest[part.party] = part
        parts = tuple(sorted(furthest.values(), key=lambda part: _name(part.party)))
        filled = [bundle for bundle in (self, *others) if bundle._parts]
        for bundle in filled[1:]:
            _must_agree(
                (filled[0]._kind, filled[0]._parameters), (bundle._kind, bundle._parameters)
            )
        if not filled:
            return self
        _must_draw_apart([(part.party, part.data) for part in parts], filled[0]._kind)
        return Bundle(parts, filled[0]._kind, filled[0]._parameters)

    @property
    def parts(self) -> tuple[Part, ...]:
        """Return the parts, by rising name of the party."""
        return self._parts

    @property
    def kind(self) -> int:
        """The kind byte of the parts; 0 of an empty bundle."""
        return self._kind

    @property
    def parameters(self) -> object:
        """Return the parameters of all parts (of samples: but the seed); None if it is empty."""
        return self._parameters

    @property
    def now(self) -> int:
        """The latest time of a part. SynopsisError for an empty bundle."""
        if not self._parts:
            raise SynopsisError("a bundle without parts has no time")
        return max(part.now for part in self._parts)

    def behind(self, now: int) -> tuple[str, ...]:
        """Return the parties whose synopsis has a time before `now`."""
        return tuple(part.party for part in self._parts if part.now < now)

    def check(self) -> None:
        """Raise SynopsisError unless each part keeps its invariants. Cost: that of theirs."""
        for part in self._parts:
            read(part.data).check()


def _name(party: str) -> bytes:
    try:
        return party.encode()
    except (AttributeError, UnicodeEncodeError):
        raise SynopsisError(f"the name of a party must be text, not {party!r}") from None


def _must_agree(one: tuple[int, object], other: tuple[int, object]) -> None:
    if one != other:
        raise SynopsisError(
            f"parts must be of one kind and equal parameters: kind {one[0]}, {one[1]}, "
            f"and kind {other[0]}, {other[1]}, are not"
        )


def _must_draw_apart(sent: list[tuple[str, bytes]], kind: int) -> None:
    """Raise SynopsisError if two parties draw the same random numbers for their samples."""
    if kind not in SlidingSample.kinds:
        return
    party_of: dict[int, str] = {}
    for party, data in sent:
        seed = SlidingSample.from_bytes(data).parameters.seed
        if seed in party_of:
            raise SynopsisError(
                f"parties {party_of[seed]!r} and {party!r} have one seed, so their samples are not "
                "independent: give each its own (party_seed)"
            )
        party_of[seed] = party


MadeWith = TypeVar("MadeWith")


@dataclass(frozen=True)
class UnionAnswers(Answers):
    """Answers over the union of each bundle's parts: float64[bundles, spans] each.

    `lowers <= exact <= uppers`, always; NaN where a window has nothing to answer from.
    """

    estimates: Floats
    lowers: Floats
    uppers: Floats


@dataclass(frozen=True)
class Asked(Generic[MadeWith]):
    """The queries of a batch.

    states: of the P parts of all bundles, one bundle after another; those of bundle b are
    states[starts[b]:starts[b + 1]] (int64[B + 1]). times: int64[P], when each part is asked.
    spans: int64[K]. parameters: what all parts were made with.
    """

    parameters: MadeWith
    kind: int
    states: list[bytes]
    starts: Integers
    times: Integers
    spans: Integers

    def batch(self, values: Any = ()) -> Batch:
        """Return the batch of one query for each part, and of no events; `values` are those."""
        return questions(self.times, self.spans, values)


def part_times(bundles: Sequence[Bundle], times: npt.ArrayLike) -> list[Integers]:
    """Return, for each bundle, when each of its parts is asked.

    times: int64[B], of each bundle, where all parties have one clock; or int64[P], of each part,
    one bundle after another. That is for the last n items of each of several streams, where the now
    of a party is the number of its own last item + 1 (scenario 1 of Gibbons and Tirthapura 2002,
    section 3.4). Raises SynopsisError for any other number of times, and for no bundle.
    """
    at = integers("times", times)
    sizes = np.array([len(bundle.parts) for bundle in bundles], np.int64)
    if not bundles or len(at) not in (len(bundles), sizes.sum()):
        raise SynopsisError(
            f"a time is needed for each bundle, {len(bundles)}, or for each part, {sizes.sum()}, "
            f"not {len(at)}"
        )
    if len(at) == len(bundles):
        # Where each bundle has one part the two are the same.
        at = np.repeat(at, sizes)
    return np.split(at, np.cumsum(sizes)[:-1])


def ask(
    made_with: type[MadeWith],  # noqa: ARG001 - tells what `parameters` are, for these kinds
    kinds: tuple[int, ...],
    bundles: Sequence[Bundle],
    times: npt.ArrayLike,
    spans: npt.ArrayLike,
) -> Asked[MadeWith]:
    """Check what is asked of bundles whose parts are of one of `kinds`, made with `made_with`.

    times: int64[B], when each bundle is asked, or int64[P], when each part is (`part_times`), not
    before the `now` of a part: what has gone into a synopsis cannot be taken out. spans: int64[K].
    Raises SynopsisError for bundles without parts, of other kinds or of parameters that differ, and
    for times that go back.
    """
    at = part_times(bundles, times)
    for bundle, part_at in zip(bundles, at, strict=True):
        if bundle.kind not in kinds:
            raise SynopsisError(
                f"a bundle of parts of kind {bundle.kind} does not answer this, but one of "
                f"{' or '.join(str(kind) for kind in kinds)}"
            )
        if (bundle.kind, bundle.parameters) != (bundles[0].kind, bundles[0].parameters):
            raise SynopsisError("bundles asked at once must be of one kind and equal parameters")
        for part, time in zip(bundle.parts, part_at.tolist(), strict=True):
            if time_in_range(time) < part.now:
                raise SynopsisError(
                    f"a query at {time} is earlier than {part.now}, the time that party "
                    f"{part.party!r} has come to"
                )
    sizes = np.array([len(bundle.parts) for bundle in bundles], np.int64)
    starts = np.zeros(len(bundles) + 1, np.int64)
    np.cumsum(sizes, out=starts[1:])
    return Asked(
        cast(MadeWith, bundles[0].parameters),
        bundles[0].kind,
        [part.data for bundle in bundles for part in bundle.parts],
        starts,
        np.concatenate(at),
        integers("spans", spans),
    )
