"""Pages of any store parse as an XML parser reads them."""

from __future__ import annotations

from urllib.parse import quote_plus
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddbload.source.s3_listing.list_page import (
    BadPage,
    ListedObject,
    is_sorted,
    read_page,
)

HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'
NAMESPACE = ' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
MOMENT = "2026-11-21T20:08:00.000Z"


def entry(key: str, *, etag: str = "&quot;e&quot;", more: str = "", storage: str = "") -> str:
    storage = storage and f"<StorageClass>{storage}</StorageClass>"
    return (
        f"<Contents><Key>{key}</Key><LastModified>{MOMENT}</LastModified><ETag>{etag}</ETag>{more}"
        f"<Size>7</Size>{storage}</Contents>"
    )


def answer(*inner: str, truncated: str = "false", head: str = HEAD) -> bytes:
    told = f"<Name>b</Name><IsTruncated>{truncated}</IsTruncated>"
    return f"{head}<ListBucketResult{NAMESPACE}>{told}{''.join(inner)}</ListBucketResult>".encode()


def test_pages_of_other_stores_are_parsed():
    body = answer(
        "\n  <Contents>\n    <Size> 7 </Size><Owner><ID>x</ID></Owner>\n    <Key>k</Key>\n"
        "  </Contents>\n",
        truncated=" true ",
        head="",
    ).replace(b"<Name>", b"<NextContinuationToken>t</NextContinuationToken><Name>")
    assert read_page(body) == (
        [ListedObject("k", 7, "", "STANDARD", "")],
        "t",
    )


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "not XML"),
        (b"<html>", "not XML"),
        (b"\xff\xfe\xff", "not XML"),
        (answer(entry("k"))[:-9], "not XML"),
        (answer(entry("a&#1;")), "not XML"),
        (answer(entry("a&nbsp;")), "not XML"),
        (b"<Error><Code>InternalError</Code></Error>", "not a listing"),
        (answer(entry("k"), truncated="true"), "how to go on"),
        (answer("<Contents><Key>k</Key></Contents>"), "no key or no size"),
        (answer("<Contents><Size>7</Size></Contents>"), "no key or no size"),
        (answer("<Contents><Key>k</Key><Size>x</Size></Contents>"), "not a number"),
        (answer("<EncodingType>url</EncodingType>", entry("%FF")), "not UTF-8"),
        (answer("<EncodingType>url</EncodingType>", entry("%FF", more="<x/>")), "not UTF-8"),
    ],
)
def test_malformed_page_is_refused(body, said):
    with pytest.raises(BadPage, match=said):
        read_page(body)


KEYS = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="￾￿"), min_size=1)


@given(st.lists(KEYS, max_size=5), st.booleans())
def test_any_key_is_parsed_back(keys, is_encoded):
    written = [quote_plus(key, safe="/") if is_encoded else escape(key) for key in keys]
    told = "<EncodingType>url</EncodingType>" if is_encoded else ""
    body = answer(told, *map(entry, written), "<!-- a comment -->")
    assert [each.key for each in read_page(body).objects] == keys


def test_is_sorted_compares_keys_by_their_utf_8_bytes():
    keys = ["a", "b", "z", "é", "퟿", "\ue000", "￼", "\U0001f600"]
    assert sorted(keys, key=str.encode) == sorted(keys) == keys
    objects = [ListedObject(key, 1, "", "", "") for key in keys]
    assert is_sorted(objects)
    assert is_sorted([])
    assert not is_sorted(objects[::-1])
    assert not is_sorted([objects[0], objects[0]])
