"""One page about a version: what it says as data, and that as HTML without a script."""
