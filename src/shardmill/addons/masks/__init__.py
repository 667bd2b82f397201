"""Masks of images: their folders, columns, values and colours."""
