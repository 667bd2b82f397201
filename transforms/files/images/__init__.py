"""Images: headers, re-encoding, examples."""
