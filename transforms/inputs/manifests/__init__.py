"""Manifests: CSV with a header, JSON lines or Parquet; one row a file."""
