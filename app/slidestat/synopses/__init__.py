"""Synopses of streams: small, flat, versioned bytes that answer for any window, with bounds.

All public names are here: `from slidestat.synopses import ExponentialHistogram`. They need numba,
NumPy, platformdirs and (for items that are strings) xxhash alone: no Kafka, no Faust, no Spark.
Each is loaded at its first use, and with it numba, which takes most of a second to import: whoever
only names a statistic and its error does not wait for it.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slidestat.synopses.blocks.parameters import (
        FrequentParameters as FrequentParameters,
    )
    from slidestat.synopses.blocks.parameters import (
        QuantileParameters as QuantileParameters,
    )
    from slidestat.synopses.blocks.parameters import (
        RandomQuantileParameters as RandomQuantileParameters,
    )
    from slidestat.synopses.core.batch import (
        BatchResult as BatchResult,
    )
    from slidestat.synopses.core.batch import (
        run_batch as run_batch,
    )
    from slidestat.synopses.core.errors import (
        SynopsisError as SynopsisError,
    )
    from slidestat.synopses.core.estimate import (
        Estimate as Estimate,
    )
    from slidestat.synopses.core.parameters import (
        CountParameters as CountParameters,
    )
    from slidestat.synopses.core.parameters import (
        Parameters as Parameters,
    )
    from slidestat.synopses.core.parameters import (
        SumParameters as SumParameters,
    )
    from slidestat.synopses.distinct.distinct_batch import (
        run_distinct_batch as run_distinct_batch,
    )
    from slidestat.synopses.distinct.distinct_parameters import (
        DistinctParameters as DistinctParameters,
    )
    from slidestat.synopses.distinct.distinct_wave import (
        DistinctEstimate as DistinctEstimate,
    )
    from slidestat.synopses.distinct.distinct_wave import (
        DistinctWave as DistinctWave,
    )
    from slidestat.synopses.distinct.distinct_wave import (
        Retained as Retained,
    )
    from slidestat.synopses.distinct.distinct_wave import (
        merge_distinct as merge_distinct,
    )
    from slidestat.synopses.distinct.flajolet_martin import (
        BitmapsParameters as BitmapsParameters,
    )
    from slidestat.synopses.distinct.flajolet_martin import (
        DistinctBitmaps as DistinctBitmaps,
    )
    from slidestat.synopses.distinct.flajolet_martin import (
        merge_bitmaps as merge_bitmaps,
    )
    from slidestat.synopses.distinct.flajolet_martin import (
        run_bitmaps_batch as run_bitmaps_batch,
    )
    from slidestat.synopses.distinct.item_ids import item_ids as item_ids
    from slidestat.synopses.distinct.paired_ids import second_is as second_is
    from slidestat.synopses.distinct.union_counting import (
        insert_bits as insert_bits,
    )
    from slidestat.synopses.distinct.union_counting import (
        union_count as union_count,
    )
    from slidestat.synopses.exponential_histogram.histogram import (
        ExponentialHistogram as ExponentialHistogram,
    )
    from slidestat.synopses.extremes.extreme import (
        Extreme as Extreme,
    )
    from slidestat.synopses.extremes.extreme import (
        ExtremeParameters as ExtremeParameters,
    )
    from slidestat.synopses.extremes.extreme import (
        run_extreme_batch as run_extreme_batch,
    )
    from slidestat.synopses.frequent.frequent_batch import (
        run_frequent_batch as run_frequent_batch,
    )
    from slidestat.synopses.frequent.frequent_items import (
        FrequentItems as FrequentItems,
    )
    from slidestat.synopses.frequent.named_batch import (
        run_named_items_batch as run_named_items_batch,
    )
    from slidestat.synopses.frequent.named_items import (
        NamedItems as NamedItems,
    )
    from slidestat.synopses.frequent.random_frequent import (
        RandomFrequentItems as RandomFrequentItems,
    )
    from slidestat.synopses.frequent.random_frequent_batch import (
        RandomFrequentParameters as RandomFrequentParameters,
    )
    from slidestat.synopses.frequent.random_frequent_batch import (
        run_random_frequent_batch as run_random_frequent_batch,
    )
    from slidestat.synopses.merge.asked import (
        UnionAnswers as UnionAnswers,
    )
    from slidestat.synopses.merge.bundle import (
        Bundle as Bundle,
    )
    from slidestat.synopses.merge.bundle import (
        Part as Part,
    )
    from slidestat.synopses.merge.distinct_union import (
        union_distinct as union_distinct,
    )
    from slidestat.synopses.merge.distinct_union import (
        union_distinct_where as union_distinct_where,
    )
    from slidestat.synopses.merge.extremes import (
        union_extremes as union_extremes,
    )
    from slidestat.synopses.merge.histogram_union import (
        union_value_histograms as union_value_histograms,
    )
    from slidestat.synopses.merge.item_union import (
        UnionItems as UnionItems,
    )
    from slidestat.synopses.merge.item_union import (
        union_items as union_items,
    )
    from slidestat.synopses.merge.merged_histogram import (
        MergedHistogram as MergedHistogram,
    )
    from slidestat.synopses.merge.named_union import (
        UnionNamedItems as UnionNamedItems,
    )
    from slidestat.synopses.merge.named_union import (
        union_named_items as union_named_items,
    )
    from slidestat.synopses.merge.quantile_union import (
        UnionQuantiles as UnionQuantiles,
    )
    from slidestat.synopses.merge.quantile_union import (
        union_quantiles as union_quantiles,
    )
    from slidestat.synopses.merge.sample_union import (
        UnionSample as UnionSample,
    )
    from slidestat.synopses.merge.sample_union import (
        party_seed as party_seed,
    )
    from slidestat.synopses.merge.sample_union import (
        union_sample as union_sample,
    )
    from slidestat.synopses.merge.spreads import (
        UnionSpreads as UnionSpreads,
    )
    from slidestat.synopses.merge.spreads import (
        union_spreads as union_spreads,
    )
    from slidestat.synopses.merge.totals import (
        union_averages as union_averages,
    )
    from slidestat.synopses.merge.totals import (
        union_totals as union_totals,
    )
    from slidestat.synopses.moments.spread import (
        Spread as Spread,
    )
    from slidestat.synopses.moments.spread import (
        SpreadParameters as SpreadParameters,
    )
    from slidestat.synopses.moments.spread import (
        run_spread_batch as run_spread_batch,
    )
    from slidestat.synopses.norm.lp_norm import (
        LpNorm as LpNorm,
    )
    from slidestat.synopses.norm.lp_norm import (
        LpNormParameters as LpNormParameters,
    )
    from slidestat.synopses.norm.lp_norm import (
        run_lp_norm_batch as run_lp_norm_batch,
    )
    from slidestat.synopses.quantiles.quantile_batch import (
        run_quantile_batch as run_quantile_batch,
    )
    from slidestat.synopses.quantiles.quantiles import (
        Quantiles as Quantiles,
    )
    from slidestat.synopses.quantiles.random_quantiles import (
        RandomQuantiles as RandomQuantiles,
    )
    from slidestat.synopses.sampling.sample import (
        SampleParameters as SampleParameters,
    )
    from slidestat.synopses.sampling.sample import (
        SlidingSample as SlidingSample,
    )
    from slidestat.synopses.sampling.sample import (
        run_sample_batch as run_sample_batch,
    )
    from slidestat.synopses.summaries.window_distinct import (
        WindowDistinct as WindowDistinct,
    )
    from slidestat.synopses.summaries.window_extremes import (
        WindowExtreme as WindowExtreme,
    )
    from slidestat.synopses.summaries.window_form import (
        SummaryAnswer as SummaryAnswer,
    )
    from slidestat.synopses.summaries.window_form import (
        WindowSummary as WindowSummary,
    )
    from slidestat.synopses.summaries.window_items import (
        WindowItem as WindowItem,
    )
    from slidestat.synopses.summaries.window_items import (
        WindowItems as WindowItems,
    )
    from slidestat.synopses.summaries.window_quantiles import (
        WindowQuantiles as WindowQuantiles,
    )
    from slidestat.synopses.summaries.window_spreads import (
        WindowSpread as WindowSpread,
    )
    from slidestat.synopses.summaries.window_summary import (
        merge_summaries as merge_summaries,
    )
    from slidestat.synopses.summaries.window_summary import (
        read_summary as read_summary,
    )
    from slidestat.synopses.summaries.window_summary import (
        take_summary as take_summary,
    )
    from slidestat.synopses.summaries.window_totals import (
        WindowTotals as WindowTotals,
    )
    from slidestat.synopses.value_histogram.counter_table import (
        CounterTable as CounterTable,
    )
    from slidestat.synopses.value_histogram.counter_table import (
        CounterTableParameters as CounterTableParameters,
    )
    from slidestat.synopses.value_histogram.counter_table import (
        run_counter_table_batch as run_counter_table_batch,
    )
    from slidestat.synopses.value_histogram.value_histogram import (
        ValueHistogram as ValueHistogram,
    )
    from slidestat.synopses.value_histogram.value_histogram import (
        ValueHistogramParameters as ValueHistogramParameters,
    )
    from slidestat.synopses.value_histogram.value_histogram import (
        run_value_histogram_batch as run_value_histogram_batch,
    )
    from slidestat.synopses.waves.approximate_count import (
        ApproximateCount as ApproximateCount,
    )
    from slidestat.synopses.waves.approximate_count import (
        ApproximateCountParameters as ApproximateCountParameters,
    )
    from slidestat.synopses.waves.average_wave import (
        AverageWave as AverageWave,
    )
    from slidestat.synopses.waves.count_wave import (
        CountWave as CountWave,
    )
    from slidestat.synopses.waves.position_wave import (
        PositionWave as PositionWave,
    )
    from slidestat.synopses.waves.sum_wave import (
        SumWave as SumWave,
    )
    from slidestat.synopses.waves.wave_batch import (
        run_wave_batch as run_wave_batch,
    )
    from slidestat.synopses.waves.wave_parameters import (
        AverageParameters as AverageParameters,
    )
    from slidestat.synopses.waves.wave_parameters import (
        WaveParameters as WaveParameters,
    )

_MODULES = {
    "slidestat.synopses.blocks.parameters": (
        "FrequentParameters",
        "QuantileParameters",
        "RandomQuantileParameters",
    ),
    "slidestat.synopses.core.batch": (
        "BatchResult",
        "run_batch",
    ),
    "slidestat.synopses.core.errors": ("SynopsisError",),
    "slidestat.synopses.core.estimate": ("Estimate",),
    "slidestat.synopses.core.parameters": (
        "CountParameters",
        "Parameters",
        "SumParameters",
    ),
    "slidestat.synopses.distinct.distinct_batch": ("run_distinct_batch",),
    "slidestat.synopses.distinct.distinct_parameters": ("DistinctParameters",),
    "slidestat.synopses.distinct.distinct_wave": (
        "DistinctEstimate",
        "DistinctWave",
        "Retained",
        "merge_distinct",
    ),
    "slidestat.synopses.distinct.flajolet_martin": (
        "BitmapsParameters",
        "DistinctBitmaps",
        "merge_bitmaps",
        "run_bitmaps_batch",
    ),
    "slidestat.synopses.distinct.item_ids": ("item_ids",),
    "slidestat.synopses.distinct.paired_ids": ("second_is",),
    "slidestat.synopses.distinct.union_counting": (
        "insert_bits",
        "union_count",
    ),
    "slidestat.synopses.exponential_histogram.histogram": ("ExponentialHistogram",),
    "slidestat.synopses.extremes.extreme": (
        "Extreme",
        "ExtremeParameters",
        "run_extreme_batch",
    ),
    "slidestat.synopses.frequent.frequent_batch": ("run_frequent_batch",),
    "slidestat.synopses.frequent.frequent_items": ("FrequentItems",),
    "slidestat.synopses.frequent.named_batch": ("run_named_items_batch",),
    "slidestat.synopses.frequent.named_items": ("NamedItems",),
    "slidestat.synopses.frequent.random_frequent": ("RandomFrequentItems",),
    "slidestat.synopses.frequent.random_frequent_batch": (
        "RandomFrequentParameters",
        "run_random_frequent_batch",
    ),
    "slidestat.synopses.merge.asked": ("UnionAnswers",),
    "slidestat.synopses.merge.bundle": (
        "Bundle",
        "Part",
    ),
    "slidestat.synopses.merge.distinct_union": (
        "union_distinct",
        "union_distinct_where",
    ),
    "slidestat.synopses.merge.extremes": ("union_extremes",),
    "slidestat.synopses.merge.histogram_union": ("union_value_histograms",),
    "slidestat.synopses.merge.item_union": (
        "UnionItems",
        "union_items",
    ),
    "slidestat.synopses.merge.merged_histogram": ("MergedHistogram",),
    "slidestat.synopses.merge.named_union": (
        "UnionNamedItems",
        "union_named_items",
    ),
    "slidestat.synopses.merge.quantile_union": (
        "UnionQuantiles",
        "union_quantiles",
    ),
    "slidestat.synopses.merge.sample_union": (
        "UnionSample",
        "party_seed",
        "union_sample",
    ),
    "slidestat.synopses.merge.spreads": (
        "UnionSpreads",
        "union_spreads",
    ),
    "slidestat.synopses.merge.totals": (
        "union_averages",
        "union_totals",
    ),
    "slidestat.synopses.moments.spread": (
        "Spread",
        "SpreadParameters",
        "run_spread_batch",
    ),
    "slidestat.synopses.norm.lp_norm": (
        "LpNorm",
        "LpNormParameters",
        "run_lp_norm_batch",
    ),
    "slidestat.synopses.quantiles.quantile_batch": ("run_quantile_batch",),
    "slidestat.synopses.quantiles.quantiles": ("Quantiles",),
    "slidestat.synopses.quantiles.random_quantiles": ("RandomQuantiles",),
    "slidestat.synopses.sampling.sample": (
        "SampleParameters",
        "SlidingSample",
        "run_sample_batch",
    ),
    "slidestat.synopses.summaries.window_distinct": ("WindowDistinct",),
    "slidestat.synopses.summaries.window_extremes": ("WindowExtreme",),
    "slidestat.synopses.summaries.window_form": (
        "SummaryAnswer",
        "WindowSummary",
    ),
    "slidestat.synopses.summaries.window_items": (
        "WindowItem",
        "WindowItems",
    ),
    "slidestat.synopses.summaries.window_quantiles": ("WindowQuantiles",),
    "slidestat.synopses.summaries.window_spreads": ("WindowSpread",),
    "slidestat.synopses.summaries.window_summary": (
        "merge_summaries",
        "read_summary",
        "take_summary",
    ),
    "slidestat.synopses.summaries.window_totals": ("WindowTotals",),
    "slidestat.synopses.value_histogram.counter_table": (
        "CounterTable",
        "CounterTableParameters",
        "run_counter_table_batch",
    ),
    "slidestat.synopses.value_histogram.value_histogram": (
        "ValueHistogram",
        "ValueHistogramParameters",
        "run_value_histogram_batch",
    ),
    "slidestat.synopses.waves.approximate_count": (
        "ApproximateCount",
        "ApproximateCountParameters",
    ),
    "slidestat.synopses.waves.average_wave": ("AverageWave",),
    "slidestat.synopses.waves.count_wave": ("CountWave",),
    "slidestat.synopses.waves.position_wave": ("PositionWave",),
    "slidestat.synopses.waves.sum_wave": ("SumWave",),
    "slidestat.synopses.waves.wave_batch": ("run_wave_batch",),
    "slidestat.synopses.waves.wave_parameters": (
        "AverageParameters",
        "WaveParameters",
    ),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return __all__
