"""For tools that still want a setup.py, such as Beam's --setup_file; everything stands in pyproject.toml."""

from setuptools import setup

setup()
