"""What could not be read, summed up in any order."""

from shardmill.metadata.manifest import Reject
from shardmill.transforms.formats.format import Damage, reject_file
from shardmill.transforms.workers.rejects import Losses, gather_rejects, make_parts

BAD = Reject("a.csv", 3, "read", "the row has 2 fields")
GROUP = Reject("b.parquet", 101, "read", "row group 1", 900, 5000)
REST = Reject("c.csv.gz", 41, "read", "damaged", 60, 700, "estimated")
CUT = Reject("d.csv.gz", 7, "read", "ends too early", 1, 0, "at least")


def losses(*rejects: Reject) -> Losses:
    counted = Losses()
    for reject in sorted(rejects, key=lambda reject: reject.source):
        counted.add(reject)
    return counted


def test_losses_in_words() -> None:
    assert str(losses(BAD, GROUP)) == "900 records in 1 damaged file cannot be read, 5,000 bytes"
    assert str(losses(GROUP, REST)) == "about 960 records in 2 damaged files cannot be read, 5,700 bytes"
    words = ", and how many more were in 1 file cut short or unlisted nobody knows"
    assert str(losses(CUT)) == f"at least 1 record in 1 damaged file cannot be read{words}"
    assert str(losses(CUT, REST, BAD)) == f"about 61 records in 2 damaged files cannot be read, 700 bytes{words}"
    assert losses(BAD).files == 0
    assert losses(GROUP, CUT, GROUP, CUT).files == losses(CUT, GROUP).files == 2
    assert losses(CUT, GROUP, CUT).uncounted == 1


def test_what_is_known_for_certain_does_not_fail_a_job() -> None:
    assert losses(BAD, GROUP).failure("fail") is None
    assert losses(BAD, CUT, REST).failure("reject") is None
    words = losses(BAD, CUT, REST).failure("fail")
    assert words is not None
    assert words.startswith("about 61 records in 2 damaged files")
    assert "such as 'c.csv.gz': damaged; " in words
    assert "--on_damaged_file reject" in words


def test_files_of_which_nothing_was_read_are_estimated_by_all_others() -> None:
    whole = reject_file("e.csv.gz", 500, "no")
    rest = Damage("x", 100, 0.5).make_reject("c", 1, "x", 20, 300)
    rejects, records = gather_rejects(make_parts([BAD, rest, whole], None), 221 + 10 + 1, 2200 + 100 + 500)
    assert (rejects.records, records) == (1 + 10 + 50, 221 + 10 + 50)
    assert rejects.losses.records == 60
    rejects, records = gather_rejects(make_parts([whole], None), 1, 500)
    assert (rejects.records, records) == (1, 1)
    assert rejects.losses.largest_uncertain == Reject("e.csv.gz", None, "index", "no", 1, 500, "estimated")
