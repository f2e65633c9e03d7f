from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coverlock_sdk.documents import DEEPEST, Document, DocumentError, read_file

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "not JSON"),
        (b"[]", "not a JSON object"),
        (b"\xff\xfe", "not JSON"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": 1e999}', "too large"),
        (b'{"a": ' + b"1" * 5000 + b"}", "too long"),
        (b'{"a": 1, "a": 2}', "twice"),
        (b'{"a":' * 100_000, "too deep"),
        (b'{"a":' * (DEEPEST + 1) + b"1" + b"}" * (DEEPEST + 1), "too deep"),
    ],
)
def test_what_is_not_a_plain_document_is_refused(content, complaint):
    with pytest.raises(DocumentError, match=complaint):
        Document.parsed(content)


def test_entries_have_their_type_and_their_range():
    document = Document.parsed(
        b'{"t": "x", "i": 3, "n": 0.5, "b": true, "d": {"i": -1}, "l": [{"t": 1}],'
        b'"nul": "\\u0000",'
        b'"half": "\\ud800", "none": null}'
    )
    assert (document.text("t"), document.integer("i"), document.number("n")) == ("x", 3, 0.5)
    assert "t" in document
    assert "none" not in document
    refused = {
        "'t' is not a whole number": lambda: document.integer("t"),
        "'b' is not a whole number": lambda: document.integer("b"),
        "'i' is not a text": lambda: document.text("i"),
        "'i' is not a whole number from 0 to 2": lambda: document.integer("i", high=2),
        "'d.i' is not a whole number from 0": lambda: document.document("d").integer("i"),
        r"'l\[0\].t' is not a text": lambda: document.documents("l")[0].text("t"),
        "'nul' is not a text": lambda: document.text("nul"),
        "'half' is not a text": lambda: document.text("half"),
        "it has no 'x'": lambda: document.text("x"),
        "'t' is not a list": lambda: document.entries("t"),
        "'t' is not an object": lambda: document.document("t"),
    }
    for complaint, ask in refused.items():
        with pytest.raises(DocumentError, match=complaint):
            ask()


@given(JSON)
def test_any_json_is_read_or_refused_and_so_is_each_entry(value):
    try:
        document = Document.parsed(json.dumps(value).encode())
    except DocumentError:
        return
    for name in [*document.values, "missing"]:
        for kind in ("text", "integer", "number", "document", "documents", "mapping"):
            try:
                getattr(document, kind)(name)
            except DocumentError:
                continue


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(content):
    try:
        Document.parsed(content)
    except DocumentError:
        return


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
