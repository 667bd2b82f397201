"""All kinds of input, by their command, in the order of --help."""

from pipelines.config.job import JobConfig
from pipelines.kinds import arrays, audio, images, tables, texts
from pipelines.kinds.kind import Kind

KINDS: dict[str, Kind] = {
    kind.command: kind for kind in (images.KIND, arrays.KIND, audio.KIND, *tables.KINDS, texts.KIND)
}


def kind_of(config: JobConfig) -> Kind:
    """The kind of input that `config` is the configuration of."""
    return next(kind for kind in KINDS.values() if kind.owns(config))
