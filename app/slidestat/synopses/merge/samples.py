"""A random sample of the union of a bundle's parts.

Source: priority sampling (sample.py); of separate streams, as distributed sampling has it: the
events of the largest priorities of all are among those of each. Promises: README.md, as of
one part. Cost: that of a sample of each part, and O(parts k). Proof: docs/proofs.md.

An event's priority is a random function of its stream's seed and of its number in it. So parties
with one seed would give their events of one number one priority, and no sample of the union would
be fair: a bundle refuses them. `party_seed` makes seeds that differ of one common seed; that two of
P parties come to one is less likely than P^2 2^-64, and would be refused, not overlooked.
"""

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.parameters import MAX_SEED, check_whole
from slidestat.synopses.core.philox import priority
from slidestat.synopses.merge.bundle import Bundle, ask
from slidestat.synopses.sampling.kernel import WITH_REPLACEMENT
from slidestat.synopses.sampling.sample import Sample, SampleParameters, SlidingSample


def party_seed(seed: int, party: str) -> int:
    """Return the seed of a party's samples: a hash of the common seed and of the party's name.

    seed: 0 to 2^63 - 1. Raises SynopsisError for another one.
    """
    check_whole("seed", seed, 0, MAX_SEED)
    try:
        name = party.encode()
    except (AttributeError, UnicodeEncodeError):
        raise SynopsisError(f"the party {party!r} is no text") from None
    digest = blake2b(seed.to_bytes(8, "little") + name, digest_size=8).digest()
    return int.from_bytes(digest, "little") & MAX_SEED


@dataclass(frozen=True)
class UnionSample:
    """A sample of the union: parties[i] is whose event sample.indices[i] is, by its own numbers.

    Without replacement by party, old to new; with, one event for each draw.
    """

    parties: tuple[str, ...]
    sample: Sample


def union_sample(bundle: Bundle, n: int, now: int) -> UnionSample:
    """Return the sample of the window [now - n, now) of all parts; raises SynopsisError as `ask`.

    1 <= n <= span. Cost: that of a sample of each part, and O(parts k).
    """
    size = ask(SampleParameters, SlidingSample.kinds, [bundle], [now], [n]).parameters.size
    seeds = []
    samples = []
    for part in bundle.parts:
        synopsis = SlidingSample.from_bytes(part.data)
        seeds.append(synopsis.parameters.seed)
        samples.append(synopsis.sample(n, now))
    whose = np.repeat(np.arange(len(samples)), [len(sample.indices) for sample in samples])
    indices = np.concatenate([sample.indices for sample in samples])
    if bundle.kind == WITH_REPLACEMENT:
        draws = np.concatenate([np.arange(len(sample.indices)) for sample in samples])
        chosen = _best_of_each(_priorities(seeds, whose, indices, draws), draws)
        whole = False
    else:
        drawn = _priorities(seeds, whose, indices, np.zeros(len(indices), np.int64))
        chosen = np.sort(np.argsort(-drawn, kind="stable")[:size])
        whole = all(sample.whole for sample in samples) and len(indices) <= size
    times = np.concatenate([sample.times for sample in samples])[chosen]
    values = np.concatenate([sample.values for sample in samples])[chosen]
    parties = tuple(bundle.parts[i].party for i in whose[chosen].tolist())
    return UnionSample(parties, Sample(indices[chosen], times, values, whole))


def _priorities(
    seeds: list[int], whose: Integers, indices: Integers, draws: Integers
) -> npt.NDArray[np.int64]:
    rows = zip(whose.tolist(), indices.tolist(), draws.tolist(), strict=True)
    drawn = (priority(seeds[part], index, draw) for part, index, draw in rows)
    return np.fromiter(drawn, np.int64, len(indices))


def _best_of_each(drawn: Integers, draws: Integers) -> Integers:
    """Return where each draw has its largest priority, by rising draw; the first of equal ones."""
    order = np.lexsort((np.arange(len(drawn)), -drawn, draws))
    _, first = np.unique(draws[order], return_index=True)
    return order[first]
