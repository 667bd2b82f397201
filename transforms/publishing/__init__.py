"""Check, describe, publish, verify and delete versions of a data set."""
