"""Convert records inside files to shards: an external sort by key."""
