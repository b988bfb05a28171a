"""How many distinct items: of any window, of one stream or of the union of many."""

from app.synopses.distinct.distinct_batch import run_distinct_batch
from app.synopses.distinct.distinct_parameters import DistinctParameters
from app.synopses.distinct.distinct_wave import (
    DistinctEstimate,
    DistinctWave,
    Retained,
    merge_distinct,
)
from app.synopses.distinct.flajolet_martin import (
    BitmapsParameters,
    DistinctBitmaps,
    merge_bitmaps,
    run_bitmaps_batch,
)
from app.synopses.distinct.union_counting import insert_bits, union_count

__all__ = [
    "BitmapsParameters",
    "DistinctBitmaps",
    "DistinctEstimate",
    "DistinctParameters",
    "DistinctWave",
    "Retained",
    "insert_bits",
    "merge_bitmaps",
    "merge_distinct",
    "run_bitmaps_batch",
    "run_distinct_batch",
    "union_count",
]
