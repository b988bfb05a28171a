"""Changes: whether the newest events differ from their window by more than chance explains.

Source: Bifet and Gavalda 2007 (ADWIN: a window is cut in two at many places, and its parts differ
where their means lie further apart than a bound for chance, taken for all cuts at once). The bound
and its proof are our own: it takes the observed variance, which in ADWIN is an approximation, as it
is known of a finite population; and no range of values has to be declared.

Contract. Let a window be cut at K ages that do not depend on its values, and let its values, given
their times, be exchangeable: as probable in any order, as independent ones of one distribution are.
A change is found where `evidence` is at least `needed(delta, K)`: with a probability of at most
delta, whatever the distribution is. Bounds of a synopsis take the place of exact figures so that
evidence is never more than that of the exact ones: approximation adds no false alarm.

Why it holds, and what is found: docs/proofs.md.
"""

from collections.abc import Sequence
from math import log
from typing import NamedTuple

import numpy as np

from slidestat.synopses.core.arrays import Floats, Integers

_ROUNDING = 1 + 2.0**-30
"""Outward: covers what a few dozen operations on doubles lose."""

_PER_OCTAVE = 4


class Change(NamedTuple):
    """The cut of each of Q windows for which there is most evidence, float64[Q], and its age,
    int64[Q]; what is measured before it and behind it, float64[Q, 3] each: estimate, lower, upper.
    """

    evidence: Floats
    ages: Integers
    before: Floats
    after: Floats


def cut_ages(window: int, step: int) -> tuple[int, ...]:
    """Return the ages at which a window is cut: multiples of `step` up to half of the window, about
    four an octave; none if the window has not two steps.
    """
    most = window // (2 * step)
    powers = (round(2 ** (i / _PER_OCTAVE)) for i in range(_PER_OCTAVE * most.bit_length()))
    return tuple(sorted({min(it, most) * step for it in powers})) if most else ()


def needed(delta: float, cuts: int) -> float:
    """Return the least evidence that makes a change, in a window with this number of cuts."""
    return log(2 * cuts / delta) * _ROUNDING


def evidence(apart: Floats, variance: Floats, reach: Floats, events: Floats) -> Floats:
    """Return E of the proof (docs/proofs.md); 0 where nothing is known to lie apart."""
    with np.errstate(all="ignore"):
        found = events * apart**2 / (2 * (variance + reach * apart / 3))
    return np.where((apart > 0) & np.isfinite(found), found, 0.0)


def change_of_mean(
    ages: Sequence[int],
    means: Floats,
    variances: Floats,
    events: Floats,
    least: Floats,
    largest: Floats,
) -> Change:
    """Return the change of a mean. The three, float64[3, Q, K + 1], are estimates, lowers and
    uppers for what came in the last `ages`, and in the window, which is last; `least` and `largest`
    float64[Q] enclose its values, infinite where that is not known.
    """
    whole, recent = means[:, :, -1:], means[:, :, :-1]
    variance, count = variances[2, :, -1:], events[:, :, -1:]
    with np.errstate(all="ignore"):
        known = np.maximum(largest[:, np.newaxis] - whole[1], whole[2] - least[:, np.newaxis])
        reach = np.minimum(known, np.sqrt(variance * count[2])) * _ROUNDING
        apart = np.maximum(recent[1] - whole[2], whole[1] - recent[2])
        found = evidence(apart, variance * _ROUNDING, reach, events[1, :, :-1])
        # The mean before a cut is m + (m - m1) n1 / n0.
        now = events[:, :, :-1]
        before = count - now[[0, 2, 1]]
        ratios = (
            now[0] / before[0],
            now[1] / before[2],
            np.where(before[1] > 0, now[2] / before[1], np.inf),
        )
        away = whole[0] - recent[0], whole[1] - recent[2], whole[2] - recent[1]
        corners = np.stack([away[i] * ratios[j] for i in (1, 2) for j in (1, 2)])
        slack = (abs(whole[0]) + reach) * (_ROUNDING - 1)
        old = np.stack(
            (
                whole[0] + away[0] * ratios[0],
                np.fmax(whole[1] + corners.min(axis=0), whole[1] - reach) - slack,
                np.fmin(whole[2] + corners.max(axis=0), whole[2] + reach) + slack,
            )
        )
    old[0] = np.clip(old[0], old[1], old[2])
    return _most(ages, found, old, recent)


def change_of_share(ages: Sequence[int], hits: Floats, events: Floats) -> Change:
    """Return the change of the share of `hits` among `events`, counts as in `change_of_mean`."""
    whole, recent = _share(hits[:, :, -1:], events[:, :, -1:]), _share(hits, events)[:, :, :-1]
    low, high = whole[1], whole[2]
    middle = np.clip(0.5, low, high)
    variance, reach = middle * (1 - middle), np.maximum(high, 1 - low)
    apart = np.maximum(recent[1] - high, low - recent[2])
    found = evidence(apart, variance * _ROUNDING, reach, events[1, :, :-1])
    return _most(ages, found, _share(_earlier(hits), _earlier(events)), recent)


def change_of_rate(ages: Sequence[int], window: int, counts: Floats) -> Change:
    """Return the change of how many events there are in a unit of time. `counts`, float64[3, Q,
    K + 2], are those of the last `ages`, of the window, and of a longer one.
    """
    of_window = counts[:, :, :-1]
    length = np.array(ages, np.float64)
    share, part = _share(of_window, of_window[:, :, -1:])[:, :, :-1], length / window
    apart = np.maximum(share[1] - part, part - share[2])
    reach = np.maximum(part, 1 - part)
    found = evidence(apart, part * (1 - part), reach, of_window[1, :, -1:])
    was_there = counts[1, :, -1:] > counts[2, :, -2:-1]
    return _most(
        ages,
        np.where(was_there, found, 0.0),
        _outwards(_earlier(of_window) / (window - length)),
        _outwards(of_window[:, :, :-1] / length),
    )


def _most(ages: Sequence[int], found: Floats, before: Floats, after: Floats) -> Change:
    place = found.argmax(axis=1)[:, np.newaxis]
    chosen = [
        np.take_along_axis(numbers, place[np.newaxis], axis=2)[:, :, 0].T
        for numbers in (before, after)
    ]
    return Change(
        np.take_along_axis(found, place, axis=1)[:, 0],
        np.array(ages, np.int64)[place[:, 0]],
        *chosen,
    )


def _earlier(counts: Floats) -> Floats:
    """Return the counts of the events before each age, from the counts since then."""
    lowers = np.maximum(counts[1, :, -1:] - counts[2, :, :-1], 0)
    uppers = np.maximum(counts[2, :, -1:] - counts[1, :, :-1], lowers)
    return np.stack((lowers + (uppers - lowers) / 2, lowers, uppers))


def _share(hits: Floats, events: Floats) -> Floats:
    """Return bounds of a quotient of counts, the first at most the second; NaN of no events."""
    with np.errstate(all="ignore"):
        low, high = hits[1] / events[2], np.fmin(hits[2] / events[1], 1.0)
        found = np.stack((np.clip(hits[0] / events[0], low, high), low, high))
    return np.minimum(_outwards(np.where(events[2] > 0, found, np.nan)), 1.0)


def _outwards(numbers: Floats) -> Floats:
    estimates, lowers, uppers = numbers
    return np.stack((estimates, lowers / _ROUNDING, uppers * _ROUNDING))
