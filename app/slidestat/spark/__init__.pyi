from slidestat.spark.figures import plot_figures as plot_figures, read_statistics as read_statistics
from slidestat.spark.sql.columns import (
    basic_count as basic_count,
    basic_distinct as basic_distinct,
    basic_quantile as basic_quantile,
    basic_rank_quantile as basic_rank_quantile,
    basic_sum as basic_sum,
    basic_top as basic_top,
)
from slidestat.spark.sql.functions import register_functions as register_functions
from slidestat.spark.streaming.operator import stream as stream
