"""Beam's options in a recipe, which are those of its command line."""

from collections.abc import Iterator, Mapping, Sequence

from shardmill.transforms.options.yaml_nodes import Node


def beam_arguments(beam: Node) -> Iterator[str]:
    """The options below `beam:` as words of a command line.

    Raises:
      UserError: one is a mapping.
    """
    for name, node in beam.mapping().items():
        if isinstance(node.value, Mapping):
            raise node.wrong(f"{node.key} is a mapping; expected a text, true, or a list of texts")
        for item in node.value if isinstance(node.value, tuple) else (node,):
            if item.text() == "true":
                yield f"--{name}"
            elif item.text() != "false":
                yield f"--{name}={item.text()}"


def beam_entries(words: Sequence[str]) -> dict[str, str | list[str]]:
    """The words of a command line as `beam:` has them: an option that is there twice is a list."""
    found: dict[str, list[str]] = {}
    name = ""
    for word in words:
        if word.startswith("--"):
            name, equals, value = word.removeprefix("--").partition("=")
            found.setdefault(name, []).append(value if equals else "true")
        elif found[name][-1] == "true":  # its option stood before it
            found[name][-1] = word
        else:
            found[name].append(word)
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}
