"""One module for each command that is not only a kind of input."""
