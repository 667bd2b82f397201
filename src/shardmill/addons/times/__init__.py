"""Dates and times as integers since 1970, by --timestamp or a schema."""
