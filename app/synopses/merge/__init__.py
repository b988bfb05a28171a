"""Merging: synopses of many parties answer over the union of their streams, at a stated error."""

from app.synopses.merge.asked import UnionAnswers
from app.synopses.merge.bundle import Bundle, Part
from app.synopses.merge.distinct_union import union_distinct, union_distinct_where
from app.synopses.merge.extremes import union_extremes
from app.synopses.merge.histogram_union import union_value_histograms
from app.synopses.merge.item_union import UnionItems, union_items
from app.synopses.merge.merged_histogram import MergedHistogram
from app.synopses.merge.named_union import UnionNamedItems, union_named_items
from app.synopses.merge.quantile_union import UnionQuantiles, union_quantiles
from app.synopses.merge.sample_union import UnionSample, party_seed, union_sample
from app.synopses.merge.spreads import UnionSpreads, union_spreads
from app.synopses.merge.totals import union_averages, union_totals
from app.synopses.merge.window_distinct import WindowDistinct
from app.synopses.merge.window_extremes import WindowExtreme
from app.synopses.merge.window_form import SummaryAnswer, WindowSummary
from app.synopses.merge.window_items import WindowItem, WindowItems
from app.synopses.merge.window_quantiles import WindowQuantiles
from app.synopses.merge.window_spreads import WindowSpread
from app.synopses.merge.window_summary import merge_summaries, read_summary, take_summary
from app.synopses.merge.window_totals import WindowTotals

__all__ = [
    "Bundle",
    "MergedHistogram",
    "Part",
    "SummaryAnswer",
    "UnionAnswers",
    "UnionItems",
    "UnionNamedItems",
    "UnionQuantiles",
    "UnionSample",
    "UnionSpreads",
    "WindowDistinct",
    "WindowExtreme",
    "WindowItem",
    "WindowItems",
    "WindowQuantiles",
    "WindowSpread",
    "WindowSummary",
    "WindowTotals",
    "merge_summaries",
    "party_seed",
    "read_summary",
    "take_summary",
    "union_averages",
    "union_distinct",
    "union_distinct_where",
    "union_extremes",
    "union_items",
    "union_named_items",
    "union_quantiles",
    "union_sample",
    "union_spreads",
    "union_totals",
    "union_value_histograms",
]
