"""The versions of a data set: which are published, the tags that name them, the record of how each was built."""
