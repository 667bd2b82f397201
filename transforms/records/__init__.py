"""The route of records inside files: an external sort by key."""
