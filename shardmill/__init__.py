"""shardmill: raw images, text and tables to balanced, reproducible TFRecord shards.

This package is the data set itself: names, features, manifest, reading. It imports neither Beam nor TensorFlow.
"""

__version__ = "0.1.0"
