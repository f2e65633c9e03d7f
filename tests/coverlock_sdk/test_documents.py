from dataclasses import dataclass
from typing import Annotated

import pytest
from msgspec import Meta

from coverlock_sdk.documents import DocumentError, parsed, read_file


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "truncated"),
        (b"[]", "Expected `object`"),
        (b"\xff\xfe", "malformed"),
        (b'{"a": NaN}', "malformed"),
        (b'{"a": 1e999}', "out of range"),
        (b'{"a": ' + b"1" * 5000 + b"}", "out of range"),
        (b'{"a":' * 100_000, "recursion"),
    ],
)
def test_what_is_not_a_plain_document_is_refused(content, complaint):
    with pytest.raises(DocumentError, match=complaint):
        parsed(content, dict)


def test_entries_have_their_type_and_their_range():
    assert parsed(b'{"name": "x", "size": 3, "more": null}', Entry) == Entry("x", 3)
    refused = {
        b'{"name": "x"}': "missing required field `size`",
        b'{"name": 1, "size": 3}': r"Expected `str`, got `int` - at `\$.name`",
        b'{"name": "x", "size": 0}': ">= 1",
        b'{"name": "x", "size": true}': "got `bool`",
        b'{"name": "xxxxx", "size": 1}': "length <= 4",
        b'{"name": "\\ud800", "size": 1}': "as it should be",
    }
    for content, complaint in refused.items():
        with pytest.raises(DocumentError, match=complaint):
            parsed(content, Entry)


def test_files_are_read_or_refused(tmp_path):
    (tmp_path / "f").write_bytes(b"12345")
    assert read_file(tmp_path / "f") == b"12345"
    for path, complaint in (
        (tmp_path / "gone", "does not exist"),
        (tmp_path, "cannot be read"),
        ("a\0b", "not the name of a file"),
        ("x" * 5000, "cannot be read"),
    ):
        with pytest.raises(DocumentError, match=complaint):
            read_file(path)
    with pytest.raises(DocumentError, match="more than 4 bytes"):
        read_file(tmp_path / "f", most=4)


@dataclass(frozen=True)
class Entry:
    name: Annotated[str, Meta(max_length=4)]
    size: Annotated[int, Meta(ge=1)]
