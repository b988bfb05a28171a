"""Frequent items in pairs: counters of Misra and Gries whose steps carry times."""
