"""PTransforms for any Beam pipeline."""
