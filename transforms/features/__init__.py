"""Hooks by which add-ons change rows and options; the add-ons are in src/shardmill/addons."""
