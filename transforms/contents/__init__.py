"""What the examples hold, by hash: which are equal, within a split and across splits."""
