"""Requests to S3 have botocore's signatures."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from botocore import auth
from botocore.awsrequest import AWSRequest
from hypothesis import given
from hypothesis import strategies as st

from ddbload import __version__
from ddbload.aws.signing.sigv4 import (
    EMPTY_HASH,
    Credentials,
    RequestSigner,
    encoded_path,
    encoded_query,
)
from ddbload.errors import AwsConfiguration, RequestRefused
from tests.unit.aws.botocore_signatures import signed

NOW = 1_795_300_000.25
PLAIN = Credentials("AKIAEXAMPLE", "secret/key+x")
TEMPORARY = Credentials("ASIAEXAMPLE", "secret", "token/with+much==")
HOST = "bucket.s3.eu-west-1.amazonaws.com"


def by_botocore(
    path: str, query: dict[str, str], headers: dict[str, str], credentials: Credentials, now: float
) -> dict[str, str]:
    request = AWSRequest("GET", f"https://{HOST}{path}", headers=headers, params=query)
    return signed(request, auth.S3SigV4Auth, credentials, "s3", "eu-west-1", now)


def signer(*, headers: dict[str, str] | None = None, **how: Any) -> RequestSigner:
    sent = {"user-agent": f"ddbload/{__version__}", "x-amz-content-sha256": EMPTY_HASH}
    sent |= headers or {}
    return RequestSigner(
        **{"service": "s3", "region": "eu-west-1", "host": HOST, "headers": sent, **how}
    )


def parsed(request: bytes) -> tuple[str, dict[str, str]]:
    text = request.decode("ascii")
    assert text.endswith("\r\n\r\n")
    first, *lines = text[:-4].split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    assert len(headers) == len(lines)
    return first, headers


def agree(
    own: RequestSigner,
    path: str,
    query: dict[str, str],
    headers: dict[str, str],
    credentials: Credentials,
    now: float = NOW,
) -> None:
    encoded = encoded_path(path), encoded_query(query)
    first, sent = parsed(own.get(*encoded, headers, credentials, now))
    target = encoded[0] + (f"?{encoded[1]}" if query else "")
    assert first == f"GET {target} HTTP/1.1"
    assert sent.pop("host") == HOST
    assert sent.pop("user-agent") == f"ddbload/{__version__}"
    botocores = by_botocore(quote(path, safe="/~"), query, headers, credentials, now)
    assert sent.pop("authorization").split(", ") == botocores.pop("authorization").split(", ")
    assert sent == botocores


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(TEXT, st.dictionaries(TEXT.filter(bool), TEXT, max_size=4), st.floats(0, 4e9))
def test_any_key_and_query_has_botocores_signature(key, query, now):
    agree(signer(), f"/{key}", query, {"if-match": '"e"'}, TEMPORARY, now)


def test_signer_follows_time_and_credentials():
    own = signer()
    for now in (NOW, NOW + 0.5, NOW + 1, NOW + 86_400, NOW):
        for credentials in (PLAIN, TEMPORARY, Credentials("AKIAEXAMPLE", "another")):
            agree(own, "/k", {}, {}, credentials, now)


@pytest.mark.parametrize("name", ["if-match", "range", "x-amz-meta-run", "content-type"])
@pytest.mark.parametrize("value", ["a\r\nx-evil: 1", "a\n", "\x00", "\x7f"])
def test_line_end_in_a_header_of_a_request_is_refused(name, value):
    with pytest.raises(RequestRefused, match=f"header {name} has a line end"):
        signer().get("/k", "", {name: value}, PLAIN, NOW)


TERMS = {"x-amz-request-payer": "requester", "x-amz-expected-bucket-owner": "123456789012"}


@pytest.mark.parametrize("credentials", [PLAIN, TEMPORARY])
def test_headers_of_a_buckets_terms_are_signed_as_botocores(credentials):
    own = signer(headers=TERMS)
    encoded = encoded_path("/k"), ""
    _, sent = parsed(own.get(*encoded, {"if-match": '"e"'}, credentials, NOW))
    assert {name: sent[name] for name in TERMS} == TERMS
    expected = by_botocore("/k", {}, {"if-match": '"e"', **TERMS}, credentials, NOW)
    assert sent["authorization"] == expected["authorization"]


def test_terms_with_control_characters_are_refused():
    with pytest.raises(AwsConfiguration):
        signer(headers={"x-amz-request-payer": "a\r\nb: c"})
