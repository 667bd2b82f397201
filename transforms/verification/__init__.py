"""Re-reading what was written."""
