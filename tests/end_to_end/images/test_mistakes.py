"""Mistakes that users of `shardmill images` type, and the one sentence that comes back; nothing on disk changes.

The unit tests of flags and configurations hold the sentences of single values: here are one or two of each kind.
"""

import os
from pathlib import Path

import pytest

from tests.support.command import Process, Run, bind_root_to_permissions, check_mistake, image, image_tree, write_files
from tests.support.jobs import Files, Jobs, check_sentence, each_mistake
from tests.support.masks import encoded, pairs, values

IN = image_tree(("ant", "bee"), 2)
TWO = {"a.jpg": image(1), "b.jpg": image(2)}
PAIRS = pairs(4) | {"none/a.txt": b"", "../arrays/a/0.npy": b"", "other/x.png": encoded(values(1))}
ROWS = [{"file_name": f"images/a/{n}.png", "mask": f"masks/a/{n}.png", "next": f"images/b/{n + 1}.png"} for n in (0, 2)]
LISTED = PAIRS | {"m.csv": "".join(f"{','.join(words)}\n" for words in (ROWS[0], *(row.values() for row in ROWS)))}
# The files of folder `in`, and by a command line in the folder above it, the sentence; `…` is any text
MISTAKES: list[tuple[Files, dict[str, str]]] = [
    (
        IN,
        {
            "images --num_shards nosuch=2": "--num_shards nosuch=…the splits are train",
            "images --num_shards =2": "--num_shards",
            "images --resize 9x9 --resize_mode squash": "--resize_mode squash…contain",
            "images --jpeg_quality x": "--jpeg_quality…x",
            "images --image_format webp": "--image_format webp…jpeg, png",
            "images --output ''": "--output: '' is no path and no URL",
            "images --manifest ''": "--manifest: '' is no path and no URL",
            "images --input /no/such/folder": "--input /no/such/folder: no such file or folder",
            "images --input '/no/such/*.jpg'": "nothing matches --input /no/such/*.jpg",
            "images --manifest /no/such.csv": "--manifest /no/such.csv: no such file",
            "images --group_by user --splits a=1": "--group_by user: no such column…--manifest",
            "images --stratify_by user --splits a=1": "--stratify_by user: no such column…label",
            "images --folders label/group": "--folders label/group needs --splits",
            "images --folders label/group --splits a=1 --group_by folder": "contradicts --group_by folder",
            "images --exclude *.jpg": "no images…4 files that --exclude *.jpg leaves out, such as 'ant/000.jpg'",
            "images --exclude ''": "--exclude…expected the name of a file or folder",
            "images --exclude /": "--exclude…expected the name of a file or folder",
            "images --output in": "is inside --input",
            "images --input 'in/**' --output in/out": "--output…is inside --input",
            "images --input 'in/*/*/*/*' --output in/out": "--output…is inside --input",
            "arrays": "no arrays in…4 .jpg files…without arrays, such as 'ant'; `shardmill images` reads .jpg files\n",
        },
    ),
    *(
        (IN | {"../out/n/1.0.0/thesis.tex": b"years of work"}, {line: "thesis.tex…which shardmill did not write"})
        for line in ("images", "images --overwrite")
    ),
    *((IN | {f"../{at}": b"a file"}, {"images": f"{at} is not a folder"}) for at in ("out", "out/n", "out/n/1.0.0")),
    (IN | {"../out->unmounted": b""}, {"images": "out is not a folder"}),
    (IN | {"../link->in": b""}, {"images --output link": "is inside --input"}),
    ({"./": b""}, {"images": "nothing matches --input"}),
    ({"ant/": b"", "bee/": b""}, {"images": "no images in --input…2 folders without images"}),
    ({"notes.txt": b"", "ant/list.csv": b""}, {"images": "no images in --input…1 .txt file, such as 'notes.txt'…glob"}),
    ({".hidden/1.jpg": image(1)}, {"images": "no images in --input…1 hidden file, such as '.hidden'"}),
    ({"two\nlines/1.jpg": image(1), "bee/1.jpg": image(2)}, {"images": "'two\\nlines'…rename the class"}),
    ({"m.csv/": b""}, {"images --manifest in/m.csv": "--manifest in/m.csv cannot be read: not a regular file"}),
    *(
        (TWO | {"m.csv": content}, {"images --manifest in/m.csv": f"--manifest in/m.csv…{words}"})
        for content, words in {
            "": "is empty…file_name",
            "file_name\n": "has no rows",
            "file_name,height\na.jpg,1\n": "line 2 gives None and 1 for width and height",
        }.items()
    ),
    (
        TWO | {"m.jsonl": '{"file_name": "a.jpg", "": 1}\n'},
        {"images --manifest in/m.jsonl": "--manifest in/m.jsonl…a column without a name"},
    ),
    (
        IN | {"m.csv": "file_name,label,age,split\nant/000.jpg,ant,1,train\n"},
        {
            "images --manifest in/m.csv --splits a=1": "--splits was given…the manifest's column 'split'",
            "images --manifest in/m.csv --exclude bee": "--exclude bee…--manifest",
        },
    ),
    (IN | {"metadata.csv": "file_name,caption\nant/000.jpg,one\n"}, {"images --exclude bee": "--exclude metadata.csv"}),
    *(
        (IN | {"../labels.txt": content}, {"images --labels_file labels.txt": words})
        for content, words in {
            "bees\n": "class 'ant'…1 more…--on_new_label append",
            "ant\nant\n": "'ant' is twice",
            "ant\n\n": "''",
        }.items()
    ),
    (
        PAIRS,
        {
            "images --exclude *.txt": "give --input in/images --masks in/masks --folders any; or",
            "images --input in/images --masks gone": "--masks gone: no such folder",
            "images --input in/images --masks in/none": "--masks in/none: there is no image in that folder",
            "images --input in/images --masks arrays": "no image in that folder; an array…makes a PNG of a mask",
            "images --input in/images --masks in/other": "none of the images has a mask there…named 'a/0'…'x.png'",
            "images --input in/images --masks 'in/mas*'": "--masks in/mas*: expected a folder, not a glob",
            "images --input in/images --masks in/masks --verify none": "--verify none contradicts --masks in/masks",
            "images --masks_seen stored": "--masks_seen stored is about the masks of --masks or --mask_column",
            "images --mask_column mask": "--mask_column mask is about a --manifest…--masks is the folder",
            "images --mask_dtype uint16": "--mask_dtype uint16 is about the masks of --masks or --mask_column",
        },
    ),
    (
        LISTED,
        {
            f"images --manifest in/m.csv {flags}": words
            for flags, words in {
                "--mask_column gone": "--mask_column gone: ",
                "--file_column file_name,gone": "--file_column gone: ",
                "--masks masks": "--masks masks is about the images of --input, --coco…--mask_column says",
                "--mask_column mask,mask": "--mask_column: 'mask,mask' names a column twice",
                "--mask_column mask --file_column file_name,mask": "the column mask is there twice among",
                "--file_column file_name,file_name": "the column file_name is there twice",
                "--mask_column label": "--mask_column label: the column label is used for something else",
                "--mask_column image_file_name": "its feature would be called 'image'",
                "--mask_column ''": "--mask_column: '': expected a name, such as age",
                "--mask_column mask --rename mask=image": "image",
            }.items()
        },
    ),
    (
        PAIRS | {"m.csv": "file_name,mask\nimages/a/0.png,masks/a/x.png\n"},
        {"images --manifest in/m.csv --mask_column mask": "none of its 1 file…'masks/a/x.png' was looked for"},
    ),
    (
        {},
        {
            "images --boxes_csv a --annotations boxes_csv=b": "--annotations and --boxes_csv both say what is in the",
            "images --coco a.json --voc b": "--coco and --voc both say what is in the images; give one",
            "images --coco a.json --manifest b.csv": "--manifest b.csv and --coco a.json both list the images",
            "images --coco train=a.json --coco b.json": "some files have a split and others not",
            "images --coco train=a.json --coco train=b.json": "the split train is there twice",
            "images --coco a.json --verify none": "--verify none contradicts --coco a.json",
            "images --coco a.json --folders label": "--folders label is about the folders of --input…--coco",
            "images --yolo data.yaml --input .": "--input .: with --yolo data.yaml it is not needed",
            "images --coco train=a.json": "--coco a.json: no such file",
            "images --annotations cvat=gone": "cvat=gone: there is no such file or folder",
        },
    ),
]


@each_mistake(MISTAKES)
def test_a_mistake_is_one_sentence_and_changes_nothing(jobs: Jobs, files: Files, line: str, sentence: str) -> None:
    jobs.refuse(line, sentence, files=files)


def test_unknown_command(run: Run) -> None:
    known = "`shardmill --help` lists all commands"
    check_mistake(run("qwerty"), f"unknown command 'qwerty'; {known}")
    check_mistake(run("--input", "x", "csv"), f"unknown command '--input'; the command comes before its flags; {known}")
    for typo, command in (("image", "images"), ("imagse", "images"), ("json", "jsonl"), ("cvs", "csv")):
        check_mistake(run(typo), f"unknown command '{typo}'; did you mean {command}? {known}")


def test_no_input(run: Run) -> None:
    sentence = "or what annotates images: --coco, --voc, --yolo or --annotations"
    check_mistake(run("images", "--output", "out", "--name", "n"), "give either --input", sentence)


def test_output_that_is_published(jobs: Jobs) -> None:
    jobs.build("images", files=IN)
    jobs.refuse("images --seed 7", "out/n/1.0.0 is a published data set…--overwrite…--version")


@pytest.mark.parametrize("parent", ["/proc", "/proc/self/fd"])
def test_output_that_nobody_can_make(jobs: Jobs, parent: str) -> None:
    """By no permission that could be asked for: root has them all."""
    sentence = f"--output {parent}/x cannot be written: {parent}/x: No such file or directory"
    jobs.refuse(f"images --output {parent}/x", sentence, files=IN)


@pytest.mark.parametrize(
    ("closed", "mode", "sentence"), [("out", 0o555, "out is not writable"), ("in", 0, "--input in…cannot be read")]
)
def test_a_folder_that_permissions_close(jobs: Jobs, tmp_path: Path, closed: str, mode: int, sentence: str) -> None:
    jobs.write(IN | {"../out/": b""})
    (tmp_path / closed).chmod(mode)
    words = ("images", "--input", "in", "--output", "out", "--name", "n")
    result = Process(tmp_path / "process", *words, before=bind_root_to_permissions).result()
    (tmp_path / closed).chmod(0o755)
    check_sentence(result, 2, sentence)
    assert not any((tmp_path / "out").iterdir())


def test_output_inside_a_glob_that_does_not_match_it(jobs: Jobs) -> None:
    jobs.build("images --input 'in/**/*.jpg' --output in/out", files=IN)


def test_paths_that_are_not_utf8(run: Run, tmp_path: Path) -> None:
    odd, good = write_files(tmp_path / os.fsdecode(b"caf\xe9"), IN), write_files(tmp_path / "in", IN)
    check_mistake(run("images", "--input", odd, "--output", tmp_path / "out", "--name", "n"), "--input", "UTF-8")
    check_mistake(run("images", "--input", good, "--output", odd / "out", "--name", "n"), "--output", "UTF-8")
    assert not (tmp_path / "out").exists()
    assert not (odd / "out").exists()
