"""Features, feature kinds and encoded records."""
