"""WAV files: their header, their samples, examples."""
