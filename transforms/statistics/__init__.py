"""Statistics that merge in any order to the same digits."""
