"""Shards written to a sink."""
