"""How a job runs: the runner, its threads and memory, progress, checks before anything is written, cleaning up."""
