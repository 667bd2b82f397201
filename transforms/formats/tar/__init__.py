"""Tar files of samples, as WebDataset has them."""
