"""Quantiles by value: a relative error of the value, over any window."""
