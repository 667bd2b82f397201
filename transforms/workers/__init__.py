"""Threads, memory, progress and rejects of Beam workers."""
