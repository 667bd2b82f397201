"""Records inside files; a new input format is a new file here."""
