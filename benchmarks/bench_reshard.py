"""How fast `shardmill reshard` is: against the loop everybody writes with tf.data, and a copy of the bytes.

The loop shuffles in a buffer of 10,000 records, `shardmill` all of them. All on the same files in one run, as processes
of their own with start-up included, in turns.
"""

from compare import against_the_loop

if __name__ == "__main__":
    what, other = "records, reshuffled", "`tf.data` with a shuffle buffer"
    against_the_loop(__doc__, "reshard", "tfrecords", "loop_reshard.py", what, other, 500_000)
