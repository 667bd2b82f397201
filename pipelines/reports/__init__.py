"""Reports for people: log lines, summaries, tables, contact sheets and the HTML page."""
