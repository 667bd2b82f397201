"""What an example holds: features by name, what they are for and called, and the arrays in them."""
