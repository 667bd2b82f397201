"""Texts as token ids, one example a text or packed into blocks."""
