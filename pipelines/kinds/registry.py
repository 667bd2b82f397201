"""All kinds of input, by their command, in the order of --help."""

from pipelines.kinds import arrays, images, tables, texts
from pipelines.kinds.kind import Kind

KINDS: dict[str, Kind] = {kind.command: kind for kind in (images.KIND, arrays.KIND, *tables.KINDS, texts.KIND)}
