"""What is said on a terminal, whoever says it."""

import pytest

from shardmill.pipelines.reports import log


def test_what_is_said_of_data_cannot_move_a_terminal_s_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    log.set_up()
    for speak in (log.info, log.log_progress, log.warn, log.error):
        speak("a class '\x1b[2J'\nand more")
    log.print_result("a class '\x1b[2J'\nand more")
    found = capsys.readouterr()
    shown = r"a class '\x1b[2J'"
    assert found.err.splitlines() == [
        rf"{before}{shown}\nand more" for before in ("shardmill: ", "", "shardmill: warning: ", "shardmill: error: ")
    ]
    assert found.out.splitlines() == [shown, "and more"]
