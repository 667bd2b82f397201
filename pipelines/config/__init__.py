"""Job configurations as frozen dataclasses, and the command-line flags made from them."""
