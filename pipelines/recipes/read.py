"""The recipes of a file, as trees of texts."""

from shardmill.transforms.options.yaml_nodes import Document, Node, read_documents

_RECIPE = Document("a recipe", "name, output, and a command over its flags")


def read_recipes(data: bytes, file: str) -> list[Node]:
    """The recipes of a YAML file; raises a UserError as `read_documents` does."""
    return read_documents(data, file, _RECIPE)
