"""What a job is told, as frozen dataclasses."""
