"""What there is to read: the files and blocks of the input."""
