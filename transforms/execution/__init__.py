"""Threads and worker processes that call the functions of steps, with their progress and errors."""
