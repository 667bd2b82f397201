"""TensorFlow's threads in the processes of a job: one, for its own threads are the cores."""

from contextlib import suppress

import tensorflow as tf


def one_thread_each() -> None:
    """Have one graph run in one thread, beside others in others; nothing where TensorFlow has begun in this process
    already, which is then another's."""
    with suppress(RuntimeError):
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
