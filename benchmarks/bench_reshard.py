"""How fast `shardmill reshard` is: against the loop everybody writes with tf.data, and a copy of the bytes.

The loop shuffles in a buffer of 10,000 records, `shardmill` all of them. All on the same files in one run, as processes
of their own with start-up included, in turns.
"""

import argparse

from compare import Case, add_options, compare, copy_case, loop_case, publish_once, report, shardmill_command
from measure import make_table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    args = parser.parse_args()

    source = make_table(args.folder, "tfrecords", args.rows)
    output, kept = args.folder / "output", args.folder / "published"
    command = shardmill_command("reshard", source, output)
    publish_once(command, output, kept)
    cases = {
        "the loop": loop_case("loop_reshard.py", source, output, args),
        "shardmill reshard": Case(command, args.rounds),
        "a copy of the bytes, read and written": copy_case(source, kept, output, args.rounds),
    }
    runs = compare(cases, output, args.rows, max(args.rounds, args.loop_rounds))
    print(report(cases, runs, args.rows, source))


if __name__ == "__main__":
    main()
