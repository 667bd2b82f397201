"""What files of shards are called, by a template in TFDS's words: those of ShardedFileTemplate in
tensorflow_datasets/core/naming.py, which reads it from dataset_info.json.

What that cannot read, or what names two shards alike, is no template here. A shard's number, and that of all, has five
digits at least. gzip shards get the suffix `.gz` behind it, as TFX has it.
"""

import re
import string
from functools import lru_cache

DEFAULT = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"
_NUMBER = r"\d{5,}"
# What stands for each word in a name that is parsed
_PATTERNS = {
    "DATASET": r"(?P<name>[A-Za-z]\w*)",
    "SPLIT": r"(?P<split>\w+)",
    "FILEFORMAT": r"(?P<format>\w+)",
    "SHARD_INDEX": rf"(?P<shard>{_NUMBER})",
    "NUM_SHARDS": rf"(?P<count>{_NUMBER})",
    "SHARD_X_OF_Y": rf"(?P<shard>{_NUMBER})-of-(?P<count>{_NUMBER})",
}
_LITERALS = re.compile(r"[\w.\-=+]*", re.ASCII)  # between words: what is safe in names on every store
_KEPT_ENDS = (".tmp", ".labels.txt", ".json", ".pbtxt", ".pb")  # of other files beside shards


def problem(template: str) -> str | None:
    """Why a template can be none, in words that follow it; None if it can."""
    if "/" in template:
        return "names a folder; shards lie beside each other in the folder of their version"
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as error:
        return f"is no template: {error}"
    words = [word for _, word, _, _ in parts if word is not None]
    odd = [word for word, (_, _, form, conversion) in zip(words, parts, strict=False) if form or conversion]
    unknown = [word for word in words if word not in _PATTERNS]
    if unknown or odd:
        known = ", ".join(f"{{{word}}}" for word in _PATTERNS)
        return f"has {{{(unknown or odd)[0]}}}; TFDS knows {known}"
    if twice := [word for word in words if words.count(word) > 1]:
        return f"has {{{twice[0]}}} twice"
    if "SHARD_X_OF_Y" in words and ("SHARD_INDEX" in words or "NUM_SHARDS" in words):
        return "has the number of a shard twice; {SHARD_X_OF_Y} is {SHARD_INDEX}-of-{NUM_SHARDS}"
    if "SPLIT" not in words:
        return "lacks {SPLIT}: shards of two splits would have one name"
    if "SHARD_X_OF_Y" not in words and "SHARD_INDEX" not in words:
        return "lacks {SHARD_X_OF_Y} or {SHARD_INDEX}: all shards of a split would have one name"
    if not all(_LITERALS.fullmatch(literal) for literal, _, _, _ in parts):
        return "has other characters between words than letters, digits and any of _-.=+"
    if template.startswith((".", "_", "beam-temp-")) or template.endswith(_KEPT_ENDS):
        return "begins or ends as files of another kind do, which readers pass over"
    return None


def filled(template: str, **words: str) -> str:
    """The template with something for each word, `shard` and `count` for numbers, `*` for any; `format` is the file
    format's."""
    return template.format(
        DATASET=words["name"],
        SPLIT=words["split"],
        FILEFORMAT=words["format"],
        SHARD_INDEX=words["shard"],
        NUM_SHARDS=words["count"],
        SHARD_X_OF_Y=f"{words['shard']}-of-{words['count']}",
    )


@lru_cache(maxsize=64)
def pattern(template: str, name: str | None = None, split: str | None = None) -> re.Pattern[str]:
    """What a shard's name is like, with the suffix of its codec as the group `suffix`; of one data set or split, where
    that is said."""
    known = {"DATASET": name, "SPLIT": split}
    found = []
    for literal, word, _, _ in string.Formatter().parse(template):
        found.append(re.escape(literal))
        if word is not None:
            given = known.get(word)
            found.append(_PATTERNS[word] if given is None else re.escape(given))
    return re.compile(f"{''.join(found)}(?P<suffix>(?:\\.\\w+)?)", re.ASCII)
