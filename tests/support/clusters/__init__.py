"""Real clusters for tests: what they are made of, and how they are started and ended."""
