"""Emissions of a backfill as the files of a lake, written by the tasks that compute them."""
