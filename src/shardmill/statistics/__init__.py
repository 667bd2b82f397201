"""stats.json, FeatureStats.pb and equal contents: what the examples of each split hold."""
