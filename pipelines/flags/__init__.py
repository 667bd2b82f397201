"""How a field of a configuration becomes a flag."""
