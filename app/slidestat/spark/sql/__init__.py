"""Synopses and their aggregates as functions of SQL."""
