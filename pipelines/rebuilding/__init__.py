"""The same data set again, every night: whether there is anything to do, what it keeps, which versions go."""
