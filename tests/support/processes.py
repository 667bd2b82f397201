"""Processes that tests have started, or that were started by those."""

from pathlib import Path


def is_there(pid: int) -> bool:
    """Whether a process runs. One that has ended keeps its number until somebody asks how, which not every container's
    first process does for those whose parent is gone. Source: proc(5), the state after the name in parentheses."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
