"""One file for each kind of input: its configuration and its route."""
