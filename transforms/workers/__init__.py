"""What runs inside a Beam worker and knows no data: threads, batches, progress."""
