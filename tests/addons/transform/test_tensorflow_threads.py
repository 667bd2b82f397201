"""TensorFlow has one thread in each process of a job that imports it."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

_ASK = """
import tensorflow as tf
threading = tf.config.threading
print(threading.get_intra_op_parallelism_threads(), threading.get_inter_op_parallelism_threads())
"""
_SQUARES = "import tensorflow as tf; tf.matmul(tf.ones((4, 4)), tf.ones((4, 4)))"


def said_by(*lines: str) -> str:
    script = "\n".join(lines)
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("module", ["tensorflow_apply", "tensorflow_module"])
def test_workers_that_import_it_have_one_thread_for_it(module: str) -> None:
    assert said_by(f"import shardmill.addons.transform.{module}", _ASK) == "1 1\n"


def test_the_process_that_writes_graphs_has_one_thread_for_it() -> None:
    """Its end of input is that nobody needs it."""
    begin = "import sys, io; sys.stdin = io.StringIO()"
    main = "from shardmill.addons.transform import tensorflow_graph; tensorflow_graph.main()"
    assert said_by(begin, main, _ASK) == "1 1\n"


def test_a_process_in_which_it_has_begun_keeps_its_threads() -> None:
    assert said_by(_SQUARES, "import shardmill.addons.transform.tensorflow_apply", _ASK) == "0 0\n"
