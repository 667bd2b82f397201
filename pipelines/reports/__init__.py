"""What people look at: the summary of a job, tables, contact sheets."""
