"""Groups of options, each declared once with its flag, help and check."""
