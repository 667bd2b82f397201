"""Statistics of a dataset, and checks of its data against limits and previous versions."""
