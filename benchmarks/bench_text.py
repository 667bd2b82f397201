"""How fast `shardmill text` is, an example a line: against the loop everybody writes, and a copy of the bytes.

All on the same file in one run, as processes of their own with start-up included, in turns.
"""

from compare import against_the_loop

if __name__ == "__main__":
    what, other = "lines of text", "A loop with `TFRecordWriter`"
    against_the_loop(__doc__, "text", "txt", "loop_text.py", what, other, 3_000_000, 30_000_000)
