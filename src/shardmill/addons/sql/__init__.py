"""Rows of a query: SQL databases and BigQuery."""
