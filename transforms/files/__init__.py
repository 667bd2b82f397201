"""Turn whole files into examples: images, audio, arrays and texts, one file an example."""
