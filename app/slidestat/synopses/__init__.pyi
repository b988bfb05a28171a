from slidestat.synopses.blocks.parameters import (
    FixedFrequentParameters as FixedFrequentParameters,
    FixedQuantileParameters as FixedQuantileParameters,
    FixedRandomQuantileParameters as FixedRandomQuantileParameters,
    FrequentParameters as FrequentParameters,
    QuantileParameters as QuantileParameters,
    RandomQuantileParameters as RandomQuantileParameters,
)
from slidestat.synopses.core.batch import Batch as Batch, BatchResult as BatchResult
from slidestat.synopses.core.errors import SynopsisError as SynopsisError
from slidestat.synopses.core.estimate import Estimate as Estimate
from slidestat.synopses.core.parameters import (
    CountParameters as CountParameters,
    Parameters as Parameters,
    SumParameters as SumParameters,
)
from slidestat.synopses.distinct.batch import run_distinct_batch as run_distinct_batch
from slidestat.synopses.distinct.flajolet_martin import (
    BitmapsParameters as BitmapsParameters,
    DistinctBitmaps as DistinctBitmaps,
    merge_bitmaps as merge_bitmaps,
    run_bitmaps_batch as run_bitmaps_batch,
)
from slidestat.synopses.distinct.items import item_ids as item_ids, second_is as second_is
from slidestat.synopses.distinct.parameters import DistinctParameters as DistinctParameters
from slidestat.synopses.distinct.wave import (
    DistinctEstimate as DistinctEstimate,
    DistinctWave as DistinctWave,
    Retained as Retained,
    insert_bits as insert_bits,
    merge_distinct as merge_distinct,
    union_count as union_count,
)
from slidestat.synopses.exponential_histogram.histogram import (
    ExponentialHistogram as ExponentialHistogram,
    run_batch as run_batch,
)
from slidestat.synopses.extremes.extreme import (
    Extreme as Extreme,
    ExtremeParameters as ExtremeParameters,
    run_extreme_batch as run_extreme_batch,
)
from slidestat.synopses.frequent.frequent_items import (
    FrequentItems as FrequentItems,
    run_frequent_batch as run_frequent_batch,
)
from slidestat.synopses.frequent.named_items import (
    NamedItems as NamedItems,
    run_named_items_batch as run_named_items_batch,
)
from slidestat.synopses.frequent.random_frequent import (
    FixedRandomFrequentParameters as FixedRandomFrequentParameters,
    RandomFrequentItems as RandomFrequentItems,
    RandomFrequentParameters as RandomFrequentParameters,
    run_random_frequent_batch as run_random_frequent_batch,
)
from slidestat.synopses.frequent_pairs.layout import PairedParameters as PairedParameters
from slidestat.synopses.frequent_pairs.paired_items import (
    PairedItems as PairedItems,
    run_paired_items_batch as run_paired_items_batch,
)
from slidestat.synopses.lean_distinct.parameters import (
    LeanDistinctParameters as LeanDistinctParameters,
)
from slidestat.synopses.lean_distinct.sketch import (
    LeanDistinct as LeanDistinct,
    merge_lean_distinct as merge_lean_distinct,
    run_lean_distinct_batch as run_lean_distinct_batch,
)
from slidestat.synopses.merge.bundle import (
    Bundle as Bundle,
    Part as Part,
    UnionAnswers as UnionAnswers,
)
from slidestat.synopses.merge.distinct import (
    WindowDistinct as WindowDistinct,
    WindowLeanDistinct as WindowLeanDistinct,
    union_distinct as union_distinct,
    union_distinct_where as union_distinct_where,
    union_lean_distinct as union_lean_distinct,
)
from slidestat.synopses.merge.items import (
    UnionItems as UnionItems,
    UnionNamedItems as UnionNamedItems,
    WindowItem as WindowItem,
    WindowItems as WindowItems,
    union_item_counts as union_item_counts,
    union_items as union_items,
    union_named_items as union_named_items,
)
from slidestat.synopses.merge.quantiles import (
    UnionQuantiles as UnionQuantiles,
    WindowQuantiles as WindowQuantiles,
    union_quantiles as union_quantiles,
)
from slidestat.synopses.merge.samples import (
    UnionSample as UnionSample,
    party_seed as party_seed,
    union_sample as union_sample,
)
from slidestat.synopses.merge.spreads import (
    UnionSpreads as UnionSpreads,
    WindowSpread as WindowSpread,
    union_spreads as union_spreads,
)
from slidestat.synopses.merge.summary import (
    SummaryAnswer as SummaryAnswer,
    WindowSummary as WindowSummary,
)
from slidestat.synopses.merge.totals import (
    WindowExtreme as WindowExtreme,
    WindowTotals as WindowTotals,
    union_ages as union_ages,
    union_averages as union_averages,
    union_extremes as union_extremes,
    union_hashed_counts as union_hashed_counts,
    union_totals as union_totals,
    union_value_histograms as union_value_histograms,
)
from slidestat.synopses.merge.value_quantiles import (
    WindowValueQuantiles as WindowValueQuantiles,
    union_value_quantiles as union_value_quantiles,
    union_value_ranks as union_value_ranks,
)
from slidestat.synopses.merge.window_summary import (
    merge_summaries as merge_summaries,
    read_summary as read_summary,
    take_summary as take_summary,
)
from slidestat.synopses.moments.spread import (
    Spread as Spread,
    SpreadParameters as SpreadParameters,
    run_spread_batch as run_spread_batch,
)
from slidestat.synopses.norm.lp_norm import (
    LpNorm as LpNorm,
    LpNormParameters as LpNormParameters,
    run_lp_norm_batch as run_lp_norm_batch,
)
from slidestat.synopses.quantiles.quantiles import (
    Quantiles as Quantiles,
    RandomQuantiles as RandomQuantiles,
    run_quantile_batch as run_quantile_batch,
)
from slidestat.synopses.sampling.sample import (
    SampleParameters as SampleParameters,
    SlidingSample as SlidingSample,
    run_sample_batch as run_sample_batch,
)
from slidestat.synopses.value_histogram.counter_table import (
    CounterTable as CounterTable,
    CounterTableParameters as CounterTableParameters,
    HashedCountParameters as HashedCountParameters,
    HashedCounts as HashedCounts,
    item_counts as item_counts,
    run_counter_table_batch as run_counter_table_batch,
    run_hashed_counts_batch as run_hashed_counts_batch,
)
from slidestat.synopses.value_histogram.value_histogram import (
    ValueHistogram as ValueHistogram,
    ValueHistogramParameters as ValueHistogramParameters,
    run_value_histogram_batch as run_value_histogram_batch,
)
from slidestat.synopses.value_quantiles.batch import (
    ValueQuantileBatch as ValueQuantileBatch,
    run_value_quantile_batch as run_value_quantile_batch,
)
from slidestat.synopses.value_quantiles.parameters import (
    ValueQuantileParameters as ValueQuantileParameters,
)
from slidestat.synopses.value_quantiles.sketch import Rank as Rank, ValueQuantiles as ValueQuantiles
from slidestat.synopses.waves.approximate_count import (
    ApproximateCount as ApproximateCount,
    ApproximateCountParameters as ApproximateCountParameters,
)
from slidestat.synopses.waves.average_wave import AverageWave as AverageWave
from slidestat.synopses.waves.parameters import (
    AverageParameters as AverageParameters,
    WaveParameters as WaveParameters,
)
from slidestat.synopses.waves.waves import (
    CountWave as CountWave,
    PositionWave as PositionWave,
    SumWave as SumWave,
    run_wave_batch as run_wave_batch,
)
