"""Modules that take seconds to import and that few tests use: imported with the first use of one, and not as tests are
collected, which every process of tests does and whoever runs one test."""

from importlib import import_module
from typing import Any


class Later:
    """`tf = Later("tensorflow")` stands for the module, which is imported when something of it is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):  # pytest asks all that it finds whether it is a test, a mock, wrapped
            raise AttributeError(attribute)
        return getattr(import_module(self._name), attribute)
