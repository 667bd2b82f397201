"""Divide records among shards, write the shards, and index them for later builds."""
