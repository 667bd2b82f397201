"""Database URLs: what is shown of them, what is kept secret, and what the driver gets."""

import pickle

import pytest

from shardmill.addons.sql.database_url import parse_url
from shardmill.errors import UserError
from shardmill.flag_values import OptionValueError

SECRET = "s3cr3t/p@ss"


@pytest.mark.parametrize(
    ("given", "shown", "resolved"),
    [
        ("sqlite:///shop.db", None, None),
        ("sqlite:////data/a@b.db", None, None),
        ("postgresql://host/shop", None, None),
        ("postgresql://me@host:5432/shop?sslmode=require", None, None),
        ("postgresql://me:hunter2@host/shop", "postgresql://me:***@host/shop", None),
        ("postgresql://me:a%40b@host/shop", "postgresql://me:***@host/shop", None),
        ("postgresql://:hunter2@host/shop", "postgresql://:***@host/shop", None),
        ("mysql+pymysql://me:hun/ter2@host/shop", "mysql+pymysql://me:***@host/shop", None),
        ("postgresql:///shop?host=/run&password=hunter2", "postgresql:///shop?host=/run&password=***", None),
        ("mssql+pyodbc:///?odbc_connect=UID%3Dme", "mssql+pyodbc:///?odbc_connect=***", None),
        ("postgresql://me:${PW}@host/shop", None, "postgresql://me:s3cr3t%2Fp%40ss@host/shop"),
        (
            "postgresql://me:x${PW}@host/shop",
            "postgresql://me:***@host/shop",
            "postgresql://me:xs3cr3t%2Fp%40ss@host/shop",
        ),
        (
            "postgresql://me:hunter2@${HOST}/shop",
            "postgresql://me:***@${HOST}/shop",
            "postgresql://me:hunter2@db.example/shop",
        ),
        ("sqlite:///${HOST}/shop.db", None, "sqlite:///db.example/shop.db"),
        ("${DATABASE_URL}", None, "postgresql://me:hunter2@host/shop"),
    ],
)
def test_what_is_shown_and_what_the_driver_gets(
    given: str, shown: str | None, resolved: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PW", SECRET)
    monkeypatch.setenv("HOST", "db.example")
    monkeypatch.setenv("DATABASE_URL", "postgresql://me:hunter2@host/shop")
    url = parse_url(given)

    assert str(url) == (given if shown is None else shown)
    assert url.resolve() == (given if resolved is None else resolved)
    assert parse_url(given) == url == parse_url(url)
    assert bool(url.variable) == (shown is not None)
    assert not any(secret.encode() in pickle.dumps(url) for secret in ("hunter2", "ter2", SECRET, "a%40b", "UID"))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("shop.db", "not a database URL; expected one such as postgresql://user:${PASSWORD}@host/database"),
        ("postgresql://me:hun@ter2@host/shop", "write %40 for one that is part of the password"),
        ("postgresql://me:${HUNTER 2}@host/shop", "expected the name of an environment variable"),
    ],
)
def test_a_mistake_shows_no_secret(given: str, sentence: str) -> None:
    with pytest.raises(OptionValueError) as caught:
        parse_url(given)

    assert sentence in str(caught.value)
    assert "ter2" not in str(caught.value).lower()


def test_a_variable_that_is_missing() -> None:
    with pytest.raises(UserError, match=r"^--url .*: there is no environment variable SHARDMILL_NO_SUCH; set it"):
        parse_url("postgresql://me:${SHARDMILL_NO_SUCH}@host/shop").resolve()


@pytest.mark.parametrize(
    "given",
    [
        "postgresql://me:${PW}@host/shop",
        "postgresql://me:s3cr3t%2Fp%40ss@host/shop",
        "${ALL}",
        "x://h/?token=s3cr3t%2Fp%40ss",
    ],
)
def test_secrets_are_hidden_in_messages_of_drivers(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PW", SECRET)
    monkeypatch.setenv("ALL", "postgresql://me:s3cr3t%2Fp%40ss@host/shop")
    url = parse_url(given)
    message = f"no: password={SECRET} host=host, of {url.resolve()}, s3cr3t%2Fp%40ss"

    assert "s3cr3t" not in url.hide(message)
    assert "host=host" in url.hide(message)


@pytest.mark.parametrize(
    ("given", "file"),
    [
        ("sqlite:///a/b.db", "a/b.db"),
        ("sqlite+pysqlite:////a/b.db?timeout=5", "/a/b.db"),
        ("sqlite://", ""),
        ("sqlite:///:memory:", ""),
        ("sqlite:///file:a.db?uri=true", ""),
        ("postgresql://host/a", ""),
        ("${ALL}", ""),
    ],
)
def test_the_file_of_a_database(given: str, file: str) -> None:
    assert parse_url(given).file == file
