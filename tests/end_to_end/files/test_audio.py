"""WAV files end to end: folders and manifests, every reader, and everything that is no WAV file."""

import io
import json
import struct
import wave
from typing import Any

import numpy as np
import pytest
import soundfile

import shardmill
from shardmill.pipelines import cli
from tests.support.command import Contents, Run, npy, read_back, write_files
from tests.support.jobs import Jobs
from tests.support.later import Later
from tests.support.sounds import SAMPLES, chunk, form, riff, scipy_samples, scipy_wav, wav

tf = Later("tensorflow")
tfds = Later("tensorflow_datasets")

TREE = {
    f"{label}/{number}.wav": wav(20 + number, 1, 16, 8000, number) for label in ("hum", "tick") for number in range(8)
}
STEREO = {f"{number}.wav": wav(20 + number, 2, 16, 16_000, number) for number in range(6)}
DEEP = {f"{number}.wav": wav(20 + number, 2, 24, 16_000, number) for number in range(6)}
MIXED = {
    "a.wav": wav(9, 1, 8),
    "b.wav": wav(9, 2, 16, 16_000),
    "c.wav": scipy_wav(np.linspace(-1, 1, 9, dtype=np.float32)),
    "d.wav": riff(chunk(b"LIST", b"odd"), chunk(b"fmt ", form()), chunk(b"data", SAMPLES)),
    "e.wav": wav(4, 3, 32),
}
SETS = {"mono": TREE, "stereo": STEREO, "deep": DEEP, "mixed": MIXED}


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Contents]:
    """Each set as files, and decoded."""
    folder = tmp_path_factory.mktemp("audio")
    found = {}
    for name, files in SETS.items():
        source = write_files(folder / "in" / name, files)
        for suffix, flags in (("", []), ("-decoded", ["--decode_audio"])):
            output = folder / (name + suffix)
            words = ["audio", "--input", str(source), "--output", str(output), "--name", "n", *flags]
            assert cli.main([*words, "--splits", "train=1", "--num_shards", "2"]) == 0
            found[name + suffix] = read_back(output / "n")
    return found


def floats(files: dict[str, bytes], name: str) -> np.ndarray:
    """A file's samples as SciPy reads them, flat if all files have one channel."""
    values = scipy_samples(files[name])
    return values[:, 0] if files is TREE else values


@pytest.mark.parametrize("name", SETS)
def test_bytes_are_untouched_and_numbers_are_those_of_the_header(made: dict[str, Contents], name: str) -> None:
    contents = made[name]
    assert contents.records.keys() == SETS[name].keys()
    for file, data in SETS[name].items():
        example = contents.example(file)
        label = ["label"] if name == "mono" else []
        assert list(example) == ["audio", *label, "filename", "sample_rate", "channels", "frames"]
        assert example["audio"] == [data]
        assert example["frames"] == len(scipy_samples(data))
        assert example["channels"] == scipy_samples(data).shape[1]
    with wave.open(io.BytesIO(next(iter(SETS["stereo"].values())))) as file:
        assert made["stereo"].example("0.wav")["sample_rate"] == file.getframerate()


@pytest.mark.parametrize("name", SETS)
def test_decoded_samples_are_those_of_scipy(made: dict[str, Contents], name: str) -> None:
    for file, data in SETS[name].items():
        example = made[f"{name}-decoded"].example(file)
        np.testing.assert_array_equal(example["audio"], scipy_samples(data).reshape(-1))


@pytest.mark.slow
@pytest.mark.parametrize("decoded", ["", "-decoded"])
@pytest.mark.parametrize("name", SETS)
def test_load_and_examples_agree_with_scipy(made: dict[str, Contents], name: str, decoded: str) -> None:
    directory, files = made[name + decoded].directory, SETS[name]
    kwargs: Any = {"features": ["audio", "filename"], "shuffle": False, "supervised": False}
    plain = {item["filename"].decode(): item["audio"] for item in shardmill.examples(directory, decode_audio=True)}
    loaded = {item["filename"].numpy().decode(): item["audio"].numpy() for item in shardmill.load(directory, **kwargs)}
    batched = {}
    for batch in shardmill.load(directory, batch_size=2, **kwargs):
        for index, file in enumerate(batch["filename"].numpy()):
            row = batch["audio"][index]
            batched[file.decode()] = (row.to_tensor() if isinstance(row, tf.RaggedTensor) else row).numpy()
    for file in files:
        expected = floats(files, file)
        if name == "mixed" and decoded:
            expected = expected.reshape(-1)
        for found in (plain, loaded, batched):
            assert found[file].dtype == np.float32
            np.testing.assert_array_equal(found[file], expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mono", "stereo", "deep", "mono-decoded", "stereo-decoded"])
def test_tfds_decodes_it(made: dict[str, Contents], name: str) -> None:
    files = SETS[name.removesuffix("-decoded")]
    builder = tfds.builder_from_directory(made[name].directory)
    feature = builder.info.features["audio"]
    assert isinstance(feature, tfds.features.Audio)
    assert feature.sample_rate == (8000 if "mono" in name else 16_000)
    for item in builder.as_dataset(split="train"):
        values = item["audio"].numpy()
        if name == "deep":  # pydub fills the low byte that 24 bits lack
            values = values >> 8 << 8
        scaled = values if "decoded" in name else (values / (1 << (8 * values.dtype.itemsize - 1))).astype(np.float32)
        np.testing.assert_array_equal(scaled, floats(files, item["filename"].numpy().decode()))
    if name == "mono":
        assert builder.info.supervised_keys == ("audio", "label")


@pytest.mark.slow
def test_tfds_gives_the_bytes_of_what_differs(made: dict[str, Contents]) -> None:
    builder = tfds.builder_from_directory(made["mixed"].directory)
    found = {item["filename"].numpy().decode(): item["audio"].numpy() for item in builder.as_dataset(split="train")}
    assert found == MIXED


def test_what_differs_is_said(made: dict[str, Contents]) -> None:
    notices = "\n".join(made["mixed"].dataset.manifest.notices)
    assert "2 sample rates, 8,000 to 16,000 Hz" in notices
    assert "1 to 3 channels" in notices
    assert "tf.audio.decode_wav refuses 4 of the files (1 float32, 1 pcm16, 1 pcm32, 1 pcm8)" in notices
    assert "TFDS cannot decode" in notices
    assert "refuses 6 of the files (6 pcm24)" in "\n".join(made["deep"].dataset.manifest.notices)
    assert "reshape it to (-1, channels)" in "\n".join(made["mixed-decoded"].dataset.manifest.notices)
    for name in ("mono", "deep-decoded"):  # whose sounds are of equal content in two folders
        assert all("of 8 contents" in notice for notice in made[name].dataset.manifest.notices)


def test_statistics(made: dict[str, Contents]) -> None:
    features = json.loads((made["mixed"].directory / "stats.json").read_text())["splits"]["train"]["features"]
    assert features["audio"]["encodings"] == {"float32": 1, "pcm16": 2, "pcm32": 1, "pcm8": 1}
    assert features["audio"]["seconds"] == pytest.approx((9 + 9 + 6 + 4) / 8000 + 9 / 16_000)
    assert features["channels"] == {"files": {"1": 3, "2": 1, "3": 1}}
    assert features["sample_rate"] == {"frames": {"8000": 28, "16000": 9}}
    assert features["frames"]["max"] == 9


def test_inspect_and_verify(made: dict[str, Contents], run: Run) -> None:
    shown = run("inspect", made["stereo"].directory, "--examples", 9).out
    assert "audio, 16,000 Hz, pcm16" in shown
    assert "0.00 s at 16,000 Hz, 2 channels, pcm16, 124 B" in shown
    assert "0.00 s at 16,000 Hz: " in run("inspect", made["stereo-decoded"].directory).out
    for contents in made.values():
        assert run("verify", contents.directory, "--decode").status == 0


@pytest.mark.slow
def test_options_that_have_nothing_to_act_on(made: dict[str, Contents]) -> None:
    with pytest.raises(shardmill.UserError, match="image_size"):
        shardmill.load(made["mono"].directory, image_size=(3, 3))
    with pytest.raises(shardmill.UserError, match="decode_audio is for audio"):
        list(shardmill.examples(made["mono"].directory, features=["filename"], decode_audio=True))


def test_rejects_have_reasons(jobs: Jobs) -> None:
    files = {
        "cut.wav": wav(9)[:-1],
        "song.wav": b"ID3\x04....",
        "law.wav": riff(chunk(b"fmt ", form(6, bits=8)), chunk(b"data", b"ab")),
        "good.WAV": wav(),
    }
    made = jobs.build("audio --max_reject_fraction 0.9", files=files)
    assert list(made.contents.records) == ["good.WAV"]
    for name, words in {"cut.wav": "truncated", "song.wav": "an MP3 file", "law.wav": "A-law"}.items():
        assert words in made.reasons[name]
    jobs.fail("audio --name m", "3 of 4 records were rejected")


def test_a_manifest_lists_audio(jobs: Jobs) -> None:
    made = jobs.build("audio", files={**STEREO, "metadata.csv": "file_name,label,age\n0.wav,a,3\n1.wav,b,4\n"})
    assert "metadata.csv says what its audio files are, as --manifest does" in str(made.notices)
    assert list(made.contents.example("1.wav")["age"]) == [4]
    example = jobs.build("audio --manifest in/metadata.csv --overwrite --rename audio=sound").contents.example("1.wav")
    assert (example["sound"], list(example["age"])) == ([STEREO["1.wav"]], [4])
    sentence = "column 'frames'"
    files = {"metadata.csv": "file_name,frames\n0.wav,3\n"}
    jobs.refuse("audio --manifest in/metadata.csv --name m", sentence, files=files)


def test_other_formats_in_a_folder_are_sounds_that_are_decoded(jobs: Jobs) -> None:
    files: dict[str, bytes] = {}
    for suffix in ("wav", "flac", "ogg", "aiff", "au", "caf", "w64", "mp3"):
        out = io.BytesIO()
        soundfile.write(out, np.zeros(800), 8000, format=suffix)
        files |= {f"{label}_{suffix}/1.{suffix}": out.getvalue() for label in ("dog", "cat")}
    jobs.refuse("audio", "2 .flac files, such as 'cat_flac/1.flac'…give --decode_audio…--exclude '*.flac'", files=files)
    assert sorted(jobs.build("audio --decode_audio").contents.records) == sorted(files)


def other_wav(magic: bytes, chunks: bytes, size: int | None = None) -> bytes:
    """A WAV file whose sizes are of the byte order that its first bytes say."""
    order = ">" if magic == b"RIFX" else "<"
    return magic + struct.pack(f"{order}I", len(chunks) + 4 if size is None else size) + b"WAVE" + chunks


def sized(form_: bytes, data: bytes, size: int | None = None, order: str = "<") -> bytes:
    """The chunks of a WAV file, of which the one with the samples may state another size."""
    sizes = struct.pack(f"{order}I", len(form_)), struct.pack(f"{order}I", len(data) if size is None else size)
    return b"fmt " + sizes[0] + form_ + b"data" + sizes[1] + data


def rf64() -> bytes:
    out = io.BytesIO()
    soundfile.write(out, np.array([0.5, -0.25, 0.125, 0.0]), 8000, format="RF64", subtype="PCM_16")
    return out.getvalue()


SOUND = struct.pack("<4h", 16384, -8192, 4096, 0)
BIG_FORM = struct.pack(">HHIIHH", 1, 1, 8000, 16000, 2, 16)
LEVELS = [0.5, -0.25, 0.125, 0.0]
UNUSUAL: dict[str, tuple[bytes, list[float] | None]] = {
    "rifx": (other_wav(b"RIFX", sized(BIG_FORM, struct.pack(">4h", 16384, -8192, 4096, 0), order=">")), LEVELS),
    "rf64": (rf64(), LEVELS),
    "mu-law": (riff(chunk(b"fmt ", form(7, bits=8)), chunk(b"data", b"\xff\x80\x00\x8f")), None),
    "a-law": (riff(chunk(b"fmt ", form(6, bits=8)), chunk(b"data", b"\xd5\xaa\x2a\x55")), None),
    "64-bit floats": (riff(chunk(b"fmt ", form(3, bits=64)), chunk(b"data", struct.pack("<4d", *LEVELS))), LEVELS),
    "20 bits": (
        riff(
            chunk(b"fmt ", form(1, bits=20, frame=3, byte_rate=24000)),
            chunk(b"data", b"".join(int(level * (1 << 23)).to_bytes(3, "little", signed=True) for level in LEVELS)),
        ),
        LEVELS,
    ),
    "size too small": (riff(chunk(b"fmt ", form()), chunk(b"data", SOUND), size=36), LEVELS),
    "written to a pipe": (other_wav(b"RIFF", sized(form(), SOUND, 0x7FFFFFFF), 0x7FFFFFFF), LEVELS),
    "written to a pipe by ffmpeg": (other_wav(b"RIFF", sized(form(), SOUND, 0xFFFFFFFF), 0xFFFFFFFF), LEVELS),
    "samples written to a pipe": (other_wav(b"RIFF", sized(form(), SOUND, 0x7FFFF000)), LEVELS),
}
LOST: dict[str, tuple[bytes, str]] = {
    "no sizes": (other_wav(b"RIFF", sized(form(), SOUND, 0), 0), "as where it was written to a pipe"),
    "no size of samples": (other_wav(b"RIFF", sized(form(), SOUND, 0)), "as where it was written to a pipe"),
    "cut RIFX": (UNUSUAL["rifx"][0][:-4], "truncated: the header says 52 bytes, the file has 48"),
    "cut RF64": (rf64()[:-4], "truncated: the header says"),
    "cut mu-law": (UNUSUAL["mu-law"][0][:-2], "truncated: the header says"),
}


def test_unusual_files_are_decoded_by_soundfile(jobs: Jobs) -> None:
    files = {"a/plain.wav": wav(), **{f"a/{name}.wav": data for name, (data, _) in UNUSUAL.items()}}

    reasons = jobs.build("audio --max_reject_fraction 0.99", files=files).reasons
    assert {*reasons, "a/plain.wav"} == set(files)
    remedy = "--decode_audio stores its samples, as soundfile reads them"
    assert all(reason.endswith(remedy) for reason in reasons.values())
    assert sum("as where it was written to a pipe" in reason for reason in reasons.values()) == 3

    made = jobs.build("audio --decode_audio --overwrite")
    assert not made.rejects
    for name, (data, levels) in UNUSUAL.items():
        example = made.contents.example(f"a/{name}.wav")
        expected = levels or soundfile.read(io.BytesIO(data), dtype="float32")[0]
        assert np.allclose(example["audio"], expected, atol=1e-7)
        assert [example[key][0] for key in ("sample_rate", "channels", "frames")] == [8000, 1, 4]


@pytest.mark.parametrize("flags", ["", "--decode_audio"])
def test_lost_sounds_are_rejects(jobs: Jobs, flags: str) -> None:
    files = {"plain.wav": wav(), **{f"{name}.wav": data for name, (data, _) in LOST.items()}}
    reasons = jobs.build(f"audio --max_reject_fraction 0.99 {flags}", files=files).reasons
    assert reasons.keys() == files.keys() - {"plain.wav"}
    for name, (_, words) in LOST.items():
        assert words in reasons[f"{name}.wav"]
        assert "--decode_audio" not in reasons[f"{name}.wav"]


@pytest.mark.parametrize("kind", ["arrays", "audio"])
@pytest.mark.parametrize("names", ["P{n}/P{n}_B01 P{n}/P{n}_B8A", "{n}/left {n}/right", "images/{n} masks/{n}"])
def test_folders_of_parts_are_classes_or_have_no_meaning(jobs: Jobs, kind: str, names: str) -> None:
    made = {
        "arrays": ("npy", [npy(np.full(3, n)) for n in range(3)]),
        "audio": ("wav", [wav(number=n) for n in range(3)]),
    }
    suffix, contents = made[kind]
    files = {f"{name.format(n=n)}.{suffix}": contents[n] for n in range(3) for name in names.split()}
    ways = "if these are parts of one example, join them in one file…give --folders label; if each…--folders any"
    jobs.refuse(kind, ways, files=files)

    built, unlabelled = (jobs.build(f"{kind} --folders {roles} --name {roles}") for roles in ("label", "any"))
    folders = {name.partition("/")[0] for name in files}
    assert [set(each.class_names) for each in built.manifest.features if each.name == "label"] == [folders]
    assert "label" not in {feature.name for feature in unlabelled.manifest.features}
