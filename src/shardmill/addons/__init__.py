"""Features in folders of their own, which only the registry names."""
