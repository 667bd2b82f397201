"""Types of columns: inferred, merged, converted."""
