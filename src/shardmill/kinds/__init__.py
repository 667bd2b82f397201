"""The kinds of features, an object each: what a kind is in features.json, in schema.pbtxt, to verify, inspect and the
readers."""
