"""Checks of a version before it is published, against the version before it and against limits; and what differs
between two versions. All of it from manifest.json and stats.json alone."""
