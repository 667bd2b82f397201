"""Database URLs whose secrets stay out of configurations, pickles, records and messages."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote, unquote

from shardmill.errors import UserError
from shardmill.flag_values import OptionValueError
from shardmill.text import HIDDEN, mask_query

_EXAMPLE = "postgresql://user:${PASSWORD}@host/database or sqlite:///file.db"
_URL = re.compile(
    r"(?P<scheme>[A-Za-z][\w+.-]*)://(?:(?P<user>[^:/@]*)(?::(?P<password>[^@]*))?@)?(?P<place>[^?]*)"
    r"(?:\?(?P<parameters>.*))?",
    re.DOTALL,
)
_REFERENCE = re.compile(r"\$\{([^}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_variables: dict[str, str] = {}  # environment variables of this process that hold URLs, by URL


@dataclass(frozen=True, slots=True)
class DatabaseUrl:
    """A database URL without its secrets.

    A `${NAME}` in it is replaced by an environment variable where the database is opened. A URL that holds a secret
    itself is kept in an environment variable of this process, which workers on this machine inherit.
    """

    text: str  # the URL with *** in place of passwords and unknown parameters
    variable: str = ""  # environment variable that holds the URL itself; "" if `text` is it

    def __str__(self) -> str:
        return self.text

    @property
    def scheme(self) -> str:
        """Return the dialect and driver; "" if a variable holds all of the URL."""
        return self.text.partition("://")[0] if "://" in self.text else ""

    @property
    def file(self) -> str:
        """Return the path of an SQLite file; "" for other databases."""
        found = _URL.fullmatch(self.text)
        if found is None or found["scheme"].partition("+")[0] != "sqlite":
            return ""
        path = found["place"].removeprefix("/")
        return "" if path == ":memory:" or path.startswith("file:") or "${" in path else path

    def resolve(self) -> str:
        """Return the complete URL, for SQLAlchemy; raises UserError if an environment variable is missing."""
        url = self._template
        if _REFERENCE.fullmatch(url):
            return _REFERENCE.sub(lambda found: self._read(found[1]), url)
        found = _URL.fullmatch(url)
        assert found is not None
        user_end = found.start("place")
        login = _REFERENCE.sub(lambda name: quote(self._read(name[1]), safe=""), url[:user_end])
        return login + _REFERENCE.sub(lambda name: self._read(name[1]), url[user_end:])

    def hide(self, message: str) -> str:
        """Return a message of a driver with *** in place of everything that the URL keeps secret."""
        forms = {form for secret in self._secrets() for form in (secret, unquote(secret), quote(secret, safe=""))}
        for secret in sorted(filter(None, forms), key=len, reverse=True):
            message = message.replace(secret, HIDDEN)
        return message

    def _secrets(self) -> Iterator[str]:
        url = self.resolve()
        yield url
        yield from map(self._read, _REFERENCE.findall(self._template))
        found = _URL.fullmatch(url)
        if found is not None:
            yield found["password"] or ""
            pairs = (found["parameters"] or "").split("&")
            yield from (pair.partition("=")[2] for pair in pairs if mask_query(pair) != pair)

    @property
    def _template(self) -> str:
        return self._read(self.variable) if self.variable else self.text

    def _read(self, name: str) -> str:
        value = os.environ.get(name)
        if value is None:
            raise UserError(
                f"--url {self.text}: there is no environment variable {name}; set it here, and where workers run"
            )
        return value


def parse_url(value: object) -> DatabaseUrl:
    """Parse a database URL of SQLAlchemy; raises OptionValueError, which shows no part of a secret.

    Source of the form: https://docs.sqlalchemy.org/en/20/core/engines.html#database-urls
    """
    if isinstance(value, DatabaseUrl):
        return value
    url = str(value)
    for name in _REFERENCE.findall(url):
        if _NAME.fullmatch(name) is None:
            raise OptionValueError("expected the name of an environment variable between ${ and }")
    if _REFERENCE.fullmatch(url):
        return DatabaseUrl(url)
    found = _URL.fullmatch(url)
    if found is None:
        raise OptionValueError(f"not a database URL; expected one such as {_EXAMPLE}")
    if found["password"] is not None and "@" in found["place"]:
        raise OptionValueError(
            "there are two '@' in it; write %40 for one that is part of the password, or give the password as ${NAME},"
            " an environment variable"
        )
    text = _masked(found)
    if text == url:
        return DatabaseUrl(url)
    variable = _variables.setdefault(url, f"SHARDMILL_URL_{os.urandom(8).hex().upper()}")
    os.environ[variable] = url
    return DatabaseUrl(text, variable)


def _masked(found: re.Match[str]) -> str:
    text = f"{found['scheme']}://"
    if found["user"] is not None:
        password = found["password"]
        shown = password if not password or not _REFERENCE.sub("", password) else HIDDEN
        text += f"{found['user']}{'' if password is None else f':{shown}'}@"
    text += found["place"]
    return text if found["parameters"] is None else f"{text}?{mask_query(found['parameters'])}"
