"""Masks of images drawn from run lengths in CSV, and from the polygons and run lengths of COCO."""
