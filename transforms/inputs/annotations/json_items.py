"""A JSON document of any size, read as a stream: the items of its large arrays come some at a time.

orjson parses what is cut between two items, some of them at once, many times as fast as an event for every bracket
takes; where a cut was no such place, the standard library's parser goes on item by item.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TextIO

import orjson

# Characters read at once: more items than that holds leave the processor's cache, and are looked through for garbage
# again and again as they come to be, which takes three times as long for megabytes
_CHUNK = 1 << 16
_LARGEST = 1 << 28  # characters of one item: more are no annotation
_TAIL = 1 << 13  # characters at the end of what is read in which a cut is looked for
_CUT = re.compile(r"\}\s*,\s*(?=\{)")
_SPACE = re.compile(r"[ \t\n\r]*")


def read_arrays(
    text: TextIO, wanted: Collection[str], parsers: Mapping[str, Callable[[str], Any]] = {}
) -> Iterator[tuple[str, Any]]:
    """The items of the arrays that are the members called `wanted` of a JSON object: (name, some items), in the order
    of the document; an empty array comes once, as [].

    Args:
      text: the document.
      wanted: names of members.
      parsers: by name, what makes something of the text of some objects with commas between them, which comes then in
        place of a list of them; it makes None of those that are better such a list.

    Raises:
      ValueError: it is not JSON or no object, ends early, goes on behind the object, or one of `wanted` is no array, or
        there twice.
    """
    window = _Window(text)
    seen: set[str] = set()
    if window.next() != "{":
        raise ValueError("it is not a JSON object")
    window.skip()
    if window.next() == "}":
        window.end()
        return
    while True:
        name = window.value()
        if not isinstance(name, str) or window.next() != ":":
            raise ValueError(f"it is not JSON {window.where}")
        window.skip()
        if name in wanted:
            if name in seen:
                raise ValueError(f"it has {name!r} twice")
            seen.add(name)
            if window.next() != "[":
                raise ValueError(f"its {name!r} is not a list")
            for items in _items(window, parsers.get(name)):
                yield name, items
        else:
            window.value()
        if (after := window.next()) not in ("}", ","):
            raise ValueError(f"it ends early {window.where}" if not after else f"it is not JSON {window.where}")
        if after == "}":
            window.end()
            return
        window.skip()


def _items(window: "_Window", parser: Callable[[str], Any] | None) -> Iterator[Any]:
    window.skip()
    if window.next() == "]":
        window.skip()
        yield []
        return
    while True:
        if items := window.several(parser):
            yield items
            continue
        yield [window.value()]
        if (after := window.next()) not in ("]", ","):
            raise ValueError(f"it ends early {window.where}" if not after else f"it is not JSON {window.where}")
        window.skip()
        if after == "]":
            return


class _Window:
    """The part of a text that is looked at."""

    def __init__(self, text: TextIO) -> None:
        self._text, self._buffer, self._at = text, "", 0
        self._before = 0  # characters that are gone
        self._tried = False  # whether no cut was found in what is looked at
        self._ended = False

    @property
    def where(self) -> str:
        return f"at character {self._before + self._at:,}"

    def next(self) -> str:
        """The next character that is no space; "" at the end."""
        while True:
            match = _SPACE.match(self._buffer, self._at)
            assert match is not None
            self._at = match.end()
            if self._at < len(self._buffer) or not self._more():
                return self._buffer[self._at : self._at + 1]

    def skip(self) -> None:
        self._at += 1

    def end(self) -> None:
        """Past the last character, which is the next; raises ValueError where another follows."""
        self.skip()
        if self.next():
            raise ValueError(f"there is more behind its object, {self.where}")

    def value(self) -> Any:
        """The value that begins here, however far it reaches."""
        self.next()
        while True:
            try:
                found, end = _DECODER.raw_decode(self._buffer, self._at)
                if end < len(self._buffer) or not self._more():  # a number may go on
                    self._at = end
                    return found
            except json.JSONDecodeError as error:
                if len(self._buffer) - self._at > _LARGEST:
                    raise ValueError(f"a value of more than {_LARGEST:,} characters begins {self.where}") from None
                if not self._more():
                    raise ValueError(f"it is not JSON, or ends early, {self.where}: {error.msg}") from None
            except RecursionError:
                raise ValueError(f"a value that is nested too deep begins {self.where}") from None

    def several(self, parser: Callable[[str], Any] | None) -> Any:
        """Whole objects from here on, each of which another follows, as `read_arrays` has them; [] where none are
        seen."""
        if len(self._buffer) - self._at < _TAIL:
            self._more()
        if self._tried:
            return []
        cut = None
        for found in _CUT.finditer(self._buffer, max(self._at, len(self._buffer) - _TAIL)):
            cut = found
        if cut is not None:
            text = self._buffer[self._at : cut.start() + 1]
            try:
                items = (parser(text) if parser is not None else None) or orjson.loads(f"[{text}]")
                self._at = cut.end()
                return items
            except ValueError:
                pass
        self._tried = True
        return []

    def _more(self) -> bool:
        """Look further; whether there was more."""
        if self._ended:
            return False
        part = self._text.read(max(_CHUNK, len(self._buffer) - self._at))  # a long value is tried a few times only
        self._ended = not part
        self._before += self._at
        self._buffer, self._at, self._tried = self._buffer[self._at :] + part, 0, self._ended
        return bool(part)


_DECODER = json.JSONDecoder()
