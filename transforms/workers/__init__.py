"""Memory, elements and rejects of Beam workers."""
