"""Statistics of examples and searches for duplicates, exact and mergeable in any order."""
