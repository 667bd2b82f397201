"""Input file formats: each indexes files as blocks and reads blocks as typed rows."""
