"""Compiled or not, merges and answers over a union are the same."""

from hashlib import sha256

from slidestat.synopses import (
    union_ages,
    union_averages,
    union_distinct,
    union_extremes,
    union_items,
    union_named_items,
    union_quantiles,
    union_sample,
    union_spreads,
    union_totals,
    union_value_histograms,
)
from tests.synopses.parties import FAMILIES, bundle, drawn, taken
from tests.synopses.plain_python import as_plain_python

SPANS = [3, 40, 200]
TOTALS = ("count", "coarse count", "sum", "count wave", "sum wave")


def digest() -> str:
    """Answers over the union of every family, as one."""
    seen = sha256()
    for name in FAMILIES:
        split = taken(name, drawn("skewed", FAMILIES[name].values[0], 3, 150, 8))
        it = bundle(name, split)
        asked = ([it], [it.now + 1], SPANS)
        answers: object
        if "ages" in name:
            answers = union_ages(*asked)
        elif "coarsest" in name or name in TOTALS:
            answers = union_totals(*asked)
        elif name == "average":
            answers = union_averages(*asked)
        elif name in ("minimum", "rough maximum"):
            answers = union_extremes(*asked)
        elif "spread" in name:
            answers = union_spreads(*asked)
        elif "quantiles" in name:
            answers = union_quantiles(*asked, [0.1, 0.5, 0.9])
        elif name in ("items", "items in pairs"):
            answers = union_items(*asked, 0.1)
        elif name == "named items":
            answers = union_named_items(*asked, 0.1)
        elif name == "bins":
            answers = union_value_histograms(*asked)
        elif name == "distinct":
            answers = union_distinct(*asked)
        else:
            answers = [union_sample(it, n, it.now + 1) for n in SPANS]
        seen.update(repr(answers).encode())
    return seen.hexdigest()


def test_plain_python_gives_the_same_bytes_and_figures() -> None:
    """With NUMBA_DISABLE_JIT=1: the same states, and answers to the last digit that is shown."""
    assert as_plain_python("tests.synopses.merge.test_merges_as_plain_python") == digest()
