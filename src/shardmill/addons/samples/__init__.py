"""Small inputs to try commands with, and a test of an installation that converts and reads them."""
