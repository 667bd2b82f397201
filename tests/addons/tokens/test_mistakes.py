"""Mistakes with the flags of tokens."""

from tests.support.jobs import Files, Jobs, each_mistake
from tests.support.tokenizer_files import tokenizer_json

TEXTS = {"a.txt": "w1 w2\nw3\n", "b.txt": "w4\n"}
TOKENS = {"../t.json": tokenizer_json(), "../cls.json": tokenizer_json(("[CLS]", "[SEP]"), ("[CLS]", "[SEP]"))}
PACKED = "text --tokenizer t.json --pack_to 8"
MISTAKES: list[tuple[Files, dict[str, str]]] = [
    (
        TEXTS | TOKENS,
        {
            "text --tokenizer t.json --tokenize txt": "--tokenize txt: no such column…did you mean text?",
            "text --tokenizer t.json --max_length 0": "--max_length 0: expected at least 1",
            "text --tokenizer cls.json --max_length 2": "puts 2 tokens around each text",
            "text --tokenizer t.json --pack_to 1": "--pack_to 1: expected at least 2",
            f"{PACKED} --end_of_text no": "--end_of_text no…has no such token",
            "text --tokenizer t.json --end_of_text w1": "--end_of_text needs --pack_to",
            f"{PACKED} --keep_text": "--keep_text and --pack_to",
            f"{PACKED} --balance bytes": "--balance bytes…8 tokens",
            f"{PACKED} --line_numbers": "--pack_to and --line_numbers",
            f"{PACKED} --stratify_by label --splits a=1": "--pack_to and --stra",
            "text --tokenizer t.json --record file --reuse LATEST": "--record file without --tokenizer",
            "text --pack_to 8": "--pack_to needs --tokenizer",
            "text --max_length 8": "--max_length needs --tokenizer",
            "text --balance tokens": "--balance tokens needs --tokenizer",
            "text --tokenizer t.json --pack_to 1000000": "split 'train' has…fewer than one block",
        },
    ),
    (
        TOKENS | {"a.csv": "id,body\n1,w1\n"},
        {
            f"csv --tokenizer t.json {flags}": words
            for flags, words in {
                "": "--tokenize text: no such column…id, body",
                "--tokenize id": "--tokenize id: the column holds int64",
                "--tokenize body --label body": "--tokenize body: the column holds classes",
                "--tokenize body --label id --pack_to 4": "--pack_to and --label",
            }.items()
        },
    ),
    (
        TOKENS | {"a.csv": "input_ids,body\n1,w1\n"},
        {"csv --tokenizer t.json --tokenize body": "has a column 'input_ids' already…--drop input_ids"},
    ),
]


@each_mistake(MISTAKES)
def test_a_mistake_is_one_sentence_and_changes_nothing(jobs: Jobs, files: Files, line: str, sentence: str) -> None:
    jobs.refuse(line, sentence, files=files)


def test_texts_without_a_token_are_rejected(jobs: Jobs) -> None:
    files = TOKENS | {"a.jsonl": '{"text": ""}\n{"text": " "}\n'}
    sentence = "2 of 2 records were rejected…an empty text: t.json makes no token of it"
    jobs.fail("jsonl --tokenizer t.json", sentence, files=files)
