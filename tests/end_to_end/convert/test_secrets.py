"""Users, passwords and parameters of URLs, wherever one may be given: no message and no file shows them."""

import json
from datetime import date
from pathlib import Path

import pytest

import shardmill
from shardmill.addons.nightly.recipe import Recipe, load_recipes
from shardmill.errors import JobError, UserError
from shardmill.text import mask_urls
from tests.support.command import Run, image_tree, run_program, write_files

SECRET = "s3cr3t"
URL = f"https://{SECRET}u:{SECRET}p@127.0.0.1:1/a.jpg?X-Sig={SECRET}q&sv={SECRET}w"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://u:p@h:1/?t=s: Connection refused", "http://***@h:1/?t=***: Connection refused"),
        ("'https://t0ken@h/x.csv?sig=s'; such", "'https://***@h/x.csv?sig=***'; such"),
        ("(https://u:p/w#o?rd@h/a) https://u:p@ss@h/a", "(https://***@h/a) https://***@h/a"),
        ("https://u:p@s/w@h/a, https://u:p/a@s@h?x=1", "https://***@h/a, https://***@h?x=***"),
        ("https://u:p@h/a?mail=a@b&sig=s", "https://***@b&***"),
        ("--x=HTTPS://u:12/34@h?a=b#c", "--x=HTTPS://***@h?a=***"),
        ("HTTP://h/x?t0ken, az://a/c/x?sv=1&sig=s", "HTTP://h/x?***, az://a/c/x?sv=***&sig=***"),
        ("postgresql://me:${PW}@h/d?sslmode=require&x=1", "postgresql://me:${PW}@h/d?sslmode=require&x=***"),
        ("gs://b/p-?.csv gs://b/p?.csv/a=? https://[::1]:9000/a@2x.png", None),
    ],
)
def test_what_is_masked(text: str, shown: str | None) -> None:
    masked = mask_urls({"a": [text], "b": 1})

    assert masked == {"a": [text if shown is None else shown], "b": 1}
    assert mask_urls(masked) == masked
    assert str(UserError(text)) == UserError(text).args[0] == masked["a"][0]


WAYS = (
    ("images", "--input", URL),
    ("csv", URL),
    ("csv", "--input", f"{URL}/*.csv"),
    ("csv", "--input", "t.csv", "--output", URL),
    ("csv", "--input", "t.csv", "--output", "s3://box/out", "--s3_endpoint_url", URL),
    ("csv", "--input", "t.csv", "--output", "s3://box/out", "--s3_endpoint_url", URL.removeprefix("https://")),
    ("csv", "--input", "t.csv", "--output", "az://acc/c/out", "--blob_service_endpoint", URL),
    ("csv", "--input", f"az://acc/c/t.csv?sig={SECRET}", "--blob_service_endpoint", URL),
    ("csv", "--input", "t.csv", "--nonsense", URL),
    ("csv", "--input", "t.csv", "--schema", URL),
    ("csv", "--input", "t.csv", "--exclude", URL),
    ("images", "--manifest", URL),
    ("images", "--manifest", "m.csv", "--file_column", "file", "--file_root", URL),
    ("images", "--manifest", "m.csv", "--file_column", "file"),
    ("images", "--input", "in", "--masks", URL),
    ("images", "--input", "in", "--coco", URL),
    ("sql", "--query", "SELECT 1", "--url", URL),
    ("reshard", "--input", URL),
)


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
@pytest.mark.parametrize("more", [(), ("--log_format", "json"), ("--dry_run",)], ids=" ".join)
def test_no_route_shows_a_secret(
    way: tuple[str, ...], more: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.chdir(tmp_path)
    manifest = f"file,label\nin/a/0.jpg,a\n{URL},a\n"
    write_files(tmp_path, {**image_tree("a", 2), "m.csv": manifest.encode(), "t.csv": b"x,y\n1,2\n"})
    Path("a").rename("in")
    output = () if "--output" in way else ("--output", "out")

    result = run(*way, *output, "--name", "n", *more)

    assert result.status in (0, 1, 2)
    assert SECRET not in result.out + result.err
    check_files(tmp_path)


@pytest.mark.parametrize("option", ["s3_endpoint_url", "s3_secret_access_key", "azure_connection_string"])
def test_no_recipe_is_written_with_a_secret(option: str, tmp_path: Path, run: Run) -> None:
    (tmp_path / "t.csv").write_text("x,y\n1,2\n")
    words = ("csv", "--input", tmp_path / "t.csv", "--output", tmp_path, "--name", "n", "--write_recipe")
    recipe = tmp_path / "r.yaml"

    refused = run(*words, recipe, f"--{option}", URL)
    assert refused.status == 2
    assert f"--{option} holds a password" in refused.err
    assert not recipe.exists()
    assert run(*words, recipe, "--s3_endpoint_url", "https://h:9").status == 0
    recipe.write_text(
        recipe.read_text().replace("s3_endpoint_url: https://h:9", f"{option}: ${{PW}}") + "environment: PW\n"
    )
    (loaded,) = load_recipes([str(recipe)], {}, date.today(), {"PW": URL})  # as the message advises
    assert isinstance(loaded, Recipe)
    assert loaded.beam == (f"--{option}={URL}",)


@pytest.mark.parametrize("command", ["verify", "inspect", "report", "versions", "tag", "diff", "index", "retain"])
@pytest.mark.parametrize("store", ["", "s3://box/n"])
def test_no_command_on_a_data_set_shows_a_secret(command: str, store: str, run: Run) -> None:
    words = {"tag": ["mine", "1.0.0"], "diff": [store or URL]}.get(command, [])

    result = run(command, store or URL, *words, *(["--s3_endpoint_url", URL] if store else []))

    assert result.status in (1, 2)
    assert SECRET not in result.out + result.err


def test_the_trace_of_debug_shows_no_secret() -> None:
    result = run_program("verify", "s3://box/n", "--s3_endpoint_url", URL, "--debug")

    assert "Traceback" in result.err
    assert SECRET not in result.err


@pytest.mark.tensorflow
@pytest.mark.parametrize("reader", [shardmill.load, shardmill.source, shardmill.examples])
def test_no_reader_shows_a_secret(reader: type) -> None:
    with pytest.raises((UserError, JobError, OSError)) as caught:
        list(reader(URL, "train"))

    assert SECRET not in repr(caught.value)


def test_files_of_a_night_show_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    monkeypatch.chdir(tmp_path)
    files = {f"in/{name}": data for name, data in image_tree("ab", 25).items()}
    lines = ["file,label", *(f"{name},a" for name in files), f"{URL},a", f"nowhere/{URL},b"]
    recipe = (
        "name: n\noutput: out\nimages:\n  manifest: m.csv\n  file_column: file\n  max_reject_fraction: 0.5\n"
        f"beam:\n  s3_endpoint_url: {URL}\non_failure:\n  webhook: {URL.replace('https', 'http')}\n"
    )
    write_files(tmp_path, {**files, "m.csv": "\n".join(lines).encode(), "n.yaml": recipe.encode()})

    for more in ([], ["--quiet"], ["--force", "--accept", URL], ["--force", "--set", f"A={URL}"]):
        result = run("rebuild", "n.yaml", "--json", *more)
        assert SECRET not in result.out + result.err, result

    assert [json.loads(line)["source"] for line in next(Path("out").rglob("rejects/*.jsonl")).read_text().splitlines()]
    assert list(Path("out/n/builds").glob("*.html"))
    assert check_files(tmp_path / "out") > 10
    for command in ("inspect", "report", "verify"):
        result = run(command, "out/n")
        assert SECRET not in result.out + result.err


def check_files(folder: Path) -> int:
    """Check that no file but the input of the test holds the secret, and return the number of files."""
    given = [folder / name for name in ("m.csv", "n.yaml")]
    found = [path for path in folder.rglob("*") if path.is_file() and path not in given]
    assert [path for path in found if SECRET.encode() in path.read_bytes()] == []
    return len(found)
