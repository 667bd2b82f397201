"""Records or files that a user's function changes before they become examples: --map and --map_batches."""
