"""How the input is read: features, classes and splits."""
