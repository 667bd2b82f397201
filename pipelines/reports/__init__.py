"""Messages for people: log lines, summaries and tables."""
