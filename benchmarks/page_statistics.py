"""Runs the command in this process, and says as JSON, in a file that the first argument names, how many core seconds it
took, and how many of them went into what is gathered for the page alone: what bench_page_statistics.py asks.

What is timed is the processor's time of the thread that does it, so that what else the machine does disturbs shares
little. Where one pass over the records serves two ends, the one that would be left is made again, timed, and taken off.
"""

import json
import sys
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from threading import Lock
from typing import Any

from shardmill.pipelines.cli import main
from shardmill.pipelines.jobs import file_graphs, graph_steps, job
from shardmill.quality import feature_stats
from shardmill.transforms.columns.example_bytes import payload_hashes
from shardmill.transforms.files import encoding as file_encode
from shardmill.transforms.files.image_encoder import ImageEncoder
from shardmill.transforms.records import keys
from shardmill.transforms.records.encoding import hash_keys
from shardmill.transforms.records.staging import TaskContentsWriter
from shardmill.transforms.statistics import tables
from shardmill.transforms.statistics.contents import ContentsWriter, FileContents
from shardmill.transforms.statistics.images import Extremes
from shardmill.transforms.statistics.tables import LabelPairs

CONTENTS, PAIRS, EXTREMES, FEATURE_STATS, PAGE = "contents", "label pairs", "extremes", "FeatureStats.pb", "the page"
_spent: dict[str, float] = dict.fromkeys((CONTENTS, PAIRS, EXTREMES, FEATURE_STATS, PAGE), 0.0)
_again = 0.0  # seconds that only this measurement takes
_lock = Lock()


def _add(what: str, seconds: float) -> None:
    with _lock:
        _spent[what] += seconds


def _timed(what: str, where: object, *names: str, clock: Callable[[], float] = time.thread_time) -> None:
    """Let functions of a module, or methods of a class, add up how long they take."""
    for name in names:
        held = vars(where)[name]
        function = getattr(held, "__func__", held)

        @wraps(function)
        def timed(*args: Any, function: Callable[..., Any] = function, **kwargs: Any) -> Any:
            start = clock()
            try:
                return function(*args, **kwargs)
            finally:
                _add(what, clock() - start)

        setattr(where, name, classmethod(timed) if isinstance(held, classmethod) else timed)


def _time_hashes() -> None:
    """What rows hold is hashed with what orders them: of both the hashes of the order alone are taken off."""
    hashed = keys.order_and_contents

    def timed(rows: Any, encoded: Any, options: Any, *more: Any) -> Any:
        global _again
        start = time.thread_time()
        found = hashed(rows, encoded, options, *more)
        middle = time.thread_time()
        if options.key is not None:
            hash_keys(encoded.helpers[options.key], options.split.seed)
        elif options.split.no_shuffle:
            rows.input_order()
        else:
            payload_hashes(encoded.framed, [options.split.seed])
        again = time.thread_time() - middle
        with _lock:
            _again += again
        _add(CONTENTS, middle - start - again)
        return found

    vars(keys)["hashed"] = timed


def run(told: Path, arguments: list[str]) -> int:
    """Run the command; returns its status."""
    _time_hashes()
    _timed(CONTENTS, TaskContentsWriter, "add", "close")
    _timed(CONTENTS, file_encode, "digest_content")
    _timed(CONTENTS, FileContents, "from_digests")
    _timed(CONTENTS, ContentsWriter, "add", "write")
    for graph in (file_graphs, graph_steps):  # in threads, beside which nothing goes on
        _timed(CONTENTS, graph, "find_duplicates", clock=time.process_time)
    _timed(PAIRS, tables, "_find_row_labels")
    _timed(PAIRS, tables._ColumnStats, "_count_label_pairs")
    _timed(PAIRS, LabelPairs, "merge", "association")
    _timed(EXTREMES, ImageEncoder, "point_out")
    _timed(EXTREMES, Extremes, "merge", "move_to_shard", "by_kind")
    _timed(FEATURE_STATS, feature_stats, "to_bytes")
    _timed(PAGE, job, "write_page", "with_page_checks")
    status = main(arguments)
    told.write_text(json.dumps({"all": time.process_time() - _again, **_spent}))
    return status


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1]), sys.argv[2:]))
