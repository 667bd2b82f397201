"""The orientation that a camera noted in an image's EXIF block: a TIFF file of tags (CIPA DC-008, section 4.6)."""

from typing import Literal

_ORIENTATION = 0x0112  # its tag
_ENDIAN: dict[bytes, Literal["little", "big"]] = {b"II": "little", b"MM": "big"}
_SHORT = 3  # the type of its value: 16 bits
UPRIGHT = 1  # the orientation of which no reader turns anything


def orientation(data: bytes, start: int, end: int) -> int:
    """How the pixels lie, 1 to 8, by the TIFF structure in `data[start:end]`; 1, upright, where it does not say."""
    tiff = data[start:end]
    endian = _ENDIAN.get(tiff[:2])
    if endian is None:
        return UPRIGHT
    first = int.from_bytes(tiff[4:8], endian)
    count = int.from_bytes(tiff[first : first + 2], endian)
    tag = _ORIENTATION.to_bytes(2, endian) + _SHORT.to_bytes(2, endian)
    for entry in range(first + 2, min(first + 2 + 12 * count, len(tiff) - 11), 12):
        if tiff[entry : entry + 4] == tag:
            found = int.from_bytes(tiff[entry + 8 : entry + 10], endian)
            return found if 1 <= found <= 8 else UPRIGHT
    return UPRIGHT
