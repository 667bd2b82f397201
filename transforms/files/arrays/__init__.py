""".npy arrays of one shape and type."""
