"""TFRecords of known length, to damage."""

from shardmill.data import example, tfrecord


def framed(payload: bytes) -> bytes:
    """A record as it stands in a TFRecord file."""
    return tfrecord.record_header(len(payload)) + payload + tfrecord.record_footer([payload])


def record(number: int) -> bytes:
    """A framed Example, each as long as another."""
    entries = (
        example.encode_entry("id", example.encode_int64_feature([number])),
        example.encode_entry("t", example.encode_bytes_feature([b"%05d" % number])),
    )
    return framed(b"".join((example.example_header(sum(map(len, entries))), *entries)))


def records(first: int) -> bytes:
    """Twenty of them; the number of the first is 1,000 or more, below 10,000."""
    return b"".join(record(first + number) for number in range(20))


SIZE = len(record(1000))
WHOLE = records(1000)


def flipped(data: bytes, at: int) -> bytes:
    """The same bytes with one bit flipped in that at `at`."""
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
