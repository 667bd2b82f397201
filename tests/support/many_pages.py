"""Pages of every kind of data set, and of what goes wrong with one: their inputs, their builds, and a browser."""

import io
import json
import random
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shardmill.pipelines.cli import main
from tests.support.archives import tar
from tests.support.command import image
from tests.support.detection import draw, scenes, write_coco
from tests.support.masks import CHANGES, encoded, jpeg, photograph, picture, values
from tests.support.small_data_set import edit_manifest
from tests.support.sounds import wav
from tests.support.tokenizer_files import END, texts, tokenizer_json

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\" onload='alert(3)'"
_SPLITS = ("--splits", "train=0.8,test=0.2")
_RECIPE = "name: night\noutput: sets\ncsv: {input: in/night, label: kind, splits: {train: 0.8, test: 0.2}}\n"


def build(*arguments: str) -> None:
    """A version in `sets`, by the command line."""
    assert main([*arguments, "--output", "sets"]) == 0, arguments


def write(path: str, lines: list[str]) -> None:
    """A file of lines."""
    _write(path, ("\n".join(lines) + "\n").encode())


def _write(path: str, data: bytes) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(data)


def _images() -> None:
    for n in range(40):
        _write(f"in/images/{('cat', 'dog <b>')[n % 2]}/{n}.jpg", image(n, "JPEG", (20 + 7 * n, 30 + n)))
    build("images", "--input", "in/images", "--name", "images", *_SPLITS)


def _table() -> None:
    chance = random.Random(1)
    header = ",".join(f"column_{n}" for n in range(10)) + ",kind"
    for version, shift in (("1.0.0", 0), ("1.0.1", 3)):
        rows = [",".join(f"{chance.gauss(shift, n + 1):.3f}" for n in range(10)) for _ in range(300)]
        write(f"in/table/{version}.csv", [header, *(f"{row},{chance.choice('abc')}" for row in rows), "1,2"])
        flags = ("--name", "table", "--label", "kind", "--version", version, "--max_reject_fraction", "0.1")
        build("csv", "--input", f"in/table/{version}.csv", *flags, *_SPLITS)


def _hostile() -> None:
    quoted = HOSTILE.replace('"', '""')
    write("in/hostile.csv", [f'"{quoted}",kind', *(f'"{quoted}","{quoted}{n % 2}"' for n in range(20))])
    build("csv", "--input", "in/hostile.csv", "--name", "hostile", "--label", "kind", *_SPLITS)


def _classes() -> None:
    write("in/classes.csv", ["kind,x", *(f"class {n % 1000},{n}" for n in range(3000))])
    build("csv", "--input", "in/classes.csv", "--name", "classes", "--label", "kind", *_SPLITS)


def _wide() -> None:
    chance = random.Random(2)
    wide = [",".join(f"c{n}" for n in range(2000))]
    write("in/wide.csv", wide + [",".join(str(chance.randrange(99)) for _ in range(2000)) for _ in range(3)])
    build("csv", "--input", "in/wide.csv", "--name", "wide")


def _broad() -> None:
    """Too broad for the window: its table is moved sideways, by keys as well."""
    broad = [",".join(f"broad {n}" for n in range(6))]
    write("in/broad.csv", broad + [",".join([str(9_223_372_036_854_775_000 + n)] * 6) for n in range(40)])
    build("csv", "--input", "in/broad.csv", "--name", "broad", *_SPLITS)


def _text() -> None:
    write("in/text.txt", [f"a line of text, the {n}th, {'word ' * (n % 9)}" for n in range(100)])
    build("text", "--input", "in/text.txt", "--name", "text", "--record", "line", *_SPLITS)


def _night() -> None:
    """A class is gone, and most of the rows: what was built is not published."""
    write("night.yaml", _RECIPE.splitlines())
    write("in/night/a.csv", ["kind,x", *(f"{'ab'[n % 2]},{n % 7}" for n in range(200))])
    assert main(["rebuild", "night.yaml"]) == 0
    write("in/night/a.csv", ["kind,x", *(f"a,{n % 7}" for n in range(60))])
    assert main(["rebuild", "night.yaml"]) == 3


def _boxes() -> None:
    for split, seed in (("train", 1), ("val", 2)):
        drawn = scenes(30 if split == "train" else 8, seed)
        for scene in drawn:
            draw(scene, Path("in/boxes") / split)
        write_coco(Path("in/boxes"), drawn, f"{split}.json", split)
    flags = [flag for split in ("train", "val") for flag in ("--coco", f"{split}=in/boxes/{split}.json")]
    build("images", *flags, "--name", "boxes")


def _masks() -> None:
    for n in range(24):
        mask = values(n, (64, 48))
        _write(f"in/masks/images/{'ab'[n % 2]}/{n}.png", picture(mask))
        _write(f"in/masks/masks/{'ab'[n % 2]}/{n}.png", encoded(mask))
    build("images", "--input", "in/masks/images", "--masks", "in/masks/masks", "--name", "masks", *_SPLITS)


def _tars() -> None:
    """WebDataset's; two samples in three have equal pictures of another label."""
    members = []
    for n in range(60):
        members.append((f"{n:04}.jpg", jpeg(photograph(n % 40, 80, 60))))
        members.append((f"{n:04}.cls", b"%d" % (n % 3)))
        members.append((f"{n:04}.json", json.dumps({"caption": f"the {n}th", "score": n / 7}).encode()))
    _write("in/tars/a.tar", tar(members))
    build("webdataset", "--input", "in/tars", "--name", "tars", "--label", "label", *_SPLITS)


def _sequences() -> None:
    rows = [
        f"{user},{step},{(user * 7 + step) % 11},{'xyz'[step % 3]}"
        for user in range(40)
        for step in range(user % 9 + 1)
    ]
    write("in/sequences.csv", ["user,step,value,event", *rows])
    flags = ("--sequence_by", "user", "--order_by", "step")
    build("csv", "--input", "in/sequences.csv", "--name", "sequences", *flags, *_SPLITS)


def _tokens() -> None:
    write("in/tokens.txt", texts(400))
    _write("in/tokenizer.json", tokenizer_json())
    flags = ("--record", "line", "--tokenizer", "in/tokenizer.json", "--pack_to", "64", "--end_of_text", END)
    build("text", "--input", "in/tokens.txt", "--name", "tokens", *flags, *_SPLITS)


def _audio() -> None:
    for n in range(20):
        _write(f"in/audio/{('bark', 'meow')[n % 2]}/{n}.wav", wav(400 + 37 * n, number=n))
    build("audio", "--input", "in/audio", "--name", "audio", *_SPLITS)


def _arrays() -> None:
    for n in range(20):
        out = io.BytesIO()
        np.save(out, np.arange(12, dtype=np.float32).reshape(3, 4) * n)
        _write(f"in/arrays/{'ab'[n % 2]}/{n}.npy", out.getvalue())
    build("arrays", "--input", "in/arrays", "--name", "arrays", *_SPLITS)


def _near() -> None:
    for n in range(12):
        _write(f"in/near/{'ab'[n % 2]}/{n}.jpg", jpeg(photograph(n)))
    for n, change in enumerate(CHANGES.values()):
        _write(f"in/near/{'ab'[n % 2]}/changed {n}.jpg", change(photograph(n)))
    build("images", "--input", "in/near", "--name", "near", "--near_duplicates", "--splits", "train=0.5,test=0.5")


def _one() -> None:
    write("in/one.csv", ["x,word", "1,only"])
    build("csv", "--input", "in/one.csv", "--name", "one")


def _odd() -> None:
    """Columns of which little can be said: none but NaN, dates, constant, infinite, of no value."""
    names = "nan,day,constant,endless,empty,größe,猫,\u202eright to left,id"
    rows = [
        f"nan,2026-11-{n % 28 + 1:02}T06:00:00Z,7,{('inf', '-inf', '1.5')[n % 3]},,{n * 1e9},ねこ{n % 3},שלום,{n}"
        for n in range(60)
    ]
    write("in/odd.csv", [names, *rows])
    build("csv", "--input", "in/odd.csv", "--name", "odd", *_SPLITS)


def _rejected() -> None:
    """Half of all files do not decode."""
    for n in range(40):
        data = image(n, "PNG", (20, 16))
        _write(f"in/rejected/{'ab'[n % 2]}/{n}.png", data if n % 4 else data[:40])
    flags = ("--max_reject_fraction", "0.9")
    build("images", "--input", "in/rejected", "--name", "rejected", *flags, *_SPLITS)


def _other_features() -> None:
    """Two versions that have no feature in common but one, of another type."""
    write("in/other/1.0.0.csv", ["age,city,kind", *(f"{n},town {n % 5},a" for n in range(50))])
    write("in/other/1.0.1.csv", ["age,height,weight", *(f"old {n % 3},{n / 7},{n}" for n in range(50))])
    for version in ("1.0.0", "1.0.1"):
        build("csv", "--input", f"in/other/{version}.csv", "--name", "other_features", "--version", version)


def _older() -> None:
    """stats.json as it was before most of what the page shows was gathered."""
    write("in/older.csv", ["x,word,kind", *(f"{n},w{n % 9},{'ab'[n % 2]}" for n in range(60))])
    build("csv", "--input", "in/older.csv", "--name", "older", "--label", "kind", *_SPLITS)
    path = Path("sets/older/1.0.0/stats.json")
    stats = json.loads(path.read_text())
    kept = ("count", "missing", "min", "max", "mean", "classes")
    for split in stats["splits"].values():
        split["features"] = {
            name: {key: value for key, value in feature.items() if key in kept}
            for name, feature in split["features"].items()
        }
    path.write_text(json.dumps({"splits": stats["splits"]}))
    edit_manifest(path.parent, lambda manifest: manifest["files"].pop("stats.json"))
    shutil.rmtree("sets/older/builds")
    assert main(["report", "sets/older", "--output", "older.html"]) == 0


def _no_baseline() -> None:
    for version in ("1.0.0", "1.0.1"):
        write("in/no_baseline.csv", ["x", *(str(n) for n in range(50))])
        build("csv", "--input", "in/no_baseline.csv", "--name", "no_baseline", "--version", version)
    shutil.rmtree("sets/no_baseline/1.0.0")
    assert main(["report", "sets/no_baseline", "--output", "no_baseline.html"]) == 0


def _damaged() -> None:
    """A shard that is cut, one with another byte in it, and one that is gone."""
    for n in range(40):
        _write(f"in/damaged/{'ab'[n % 2]}/{n}.png", image(n, "PNG", (20 + n, 16)))
    build("images", "--input", "in/damaged", "--name", "damaged", "--num_shards", "4")
    cut, changed, gone, _ = sorted(Path("sets/damaged/1.0.0").glob("*.tfrecord*"))
    cut.write_bytes(cut.read_bytes()[:500])
    data = bytearray(changed.read_bytes())
    data[40] ^= 1
    changed.write_bytes(data)
    gone.unlink()
    assert main(["report", "sets/damaged", "--output", "damaged.html"]) == 0


# What makes each page, and where it lies then
PAGES: Mapping[str, tuple[Callable[[], None], str]] = {
    "images": (_images, "sets/images/builds/1.0.0.html"),
    "table": (_table, "sets/table/builds/1.0.1.html"),
    "hostile": (_hostile, "sets/hostile/builds/1.0.0.html"),
    "classes": (_classes, "sets/classes/builds/1.0.0.html"),
    "wide": (_wide, "sets/wide/builds/1.0.0.html"),
    "broad": (_broad, "sets/broad/builds/1.0.0.html"),
    "text": (_text, "sets/text/builds/1.0.0.html"),
    "night": (_night, "sets/night/builds/1.0.1.html"),
    "boxes": (_boxes, "sets/boxes/builds/1.0.0.html"),
    "masks": (_masks, "sets/masks/builds/1.0.0.html"),
    "tars": (_tars, "sets/tars/builds/1.0.0.html"),
    "sequences": (_sequences, "sets/sequences/builds/1.0.0.html"),
    "tokens": (_tokens, "sets/tokens/builds/1.0.0.html"),
    "audio": (_audio, "sets/audio/builds/1.0.0.html"),
    "arrays": (_arrays, "sets/arrays/builds/1.0.0.html"),
    "near": (_near, "sets/near/builds/1.0.0.html"),
    "one": (_one, "sets/one/builds/1.0.0.html"),
    "odd": (_odd, "sets/odd/builds/1.0.0.html"),
    "rejected": (_rejected, "sets/rejected/builds/1.0.0.html"),
    "other_features": (_other_features, "sets/other_features/builds/1.0.1.html"),
    "older": (_older, "older.html"),
    "no_baseline": (_no_baseline, "no_baseline.html"),
    "damaged": (_damaged, "damaged.html"),
}


_FOLDER = Path(__file__).parent / "browser"


def open_pages(pages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What came of each page, opened in light and in dark.

    Args:
      pages: objects with the `file`, whether `axe` looks at it, and if wanted `screenshot`, `at`, `width` and `height`.
    """
    chromium = shutil.which("chromium")
    assert chromium is not None, "there is no chromium; `make check NAME=page` installs it"
    command = ["node", str(_FOLDER / "open_pages.mjs"), chromium, json.dumps(pages)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found
