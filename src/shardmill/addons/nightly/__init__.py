"""Scheduled rebuilds: recipes, the decision to rebuild, retention, tags and webhooks."""
