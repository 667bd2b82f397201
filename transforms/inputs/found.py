"""Files as found: what indexing gives, and planning takes."""

import pyarrow as pa

# A file as found: `name` relative to the input's root; `uri` only where it lies elsewhere; the rest from a manifest's
# row.
FOUND = pa.schema(
    [
        pa.field("name", pa.string()),
        pa.field("size", pa.int64()),
        pa.field("uri", pa.string()),
        pa.field("label", pa.string()),
        pa.field("split", pa.string()),
        pa.field("line", pa.int64()),
        pa.field("columns", pa.string()),  # JSON object of the manifest's further columns
        # Changes with the file, see shardmill.transforms.stores.identity; null where nobody asked, or nobody knows
        pa.field("identity", pa.uint64()),
    ]
)
