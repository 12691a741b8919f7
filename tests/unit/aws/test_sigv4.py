"""Requests to DynamoDB have botocore's signatures."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddbload.aws.signing.sigv4 import Credentials, RequestSigner
from ddbload.errors import AwsConfiguration
from tests.unit.aws.botocore_signatures import DYNAMODB_HEADERS as HEADERS
from tests.unit.aws.botocore_signatures import by_botocore
from tests.unit.aws.response_helpers import parse_request_head

NOW = 1_795_300_000.25
PLAIN = Credentials("AKIAEXAMPLE", "secret/key+x")


def signer(
    host: str = "dynamodb.us-east-1.amazonaws.com", region: str = "us-east-1", headers=HEADERS
) -> RequestSigner:
    return RequestSigner(service="dynamodb", region=region, host=host, headers=headers)


def agree(
    own: RequestSigner, body: bytes, credentials: Credentials, now: float, **botocore: Any
) -> dict[str, str]:
    request = own.post(body, credentials, now)
    assert request.endswith(b"\r\n\r\n" + body)
    sent = parse_request_head(request[: len(request) - len(body)])
    host = sent.pop("host")
    assert int(sent.pop("content-length")) == len(body)
    assert sent == by_botocore(body, credentials, now, **botocore)
    return {**sent, "host": host}


def test_signature_changes_at_midnight():
    own = signer()
    midnight = 1_795_305_600
    before = agree(own, b"", PLAIN, midnight - 0.001)
    after = agree(own, b"", PLAIN, midnight)
    assert before["x-amz-date"].endswith("T235959Z")
    assert after["x-amz-date"].endswith("T000000Z")


@pytest.mark.parametrize("value", ["a  b", "  a \t b  ", "%", "%s %d %%", "", " ", "é  ü", "a\t"])
def test_signature_equals_botocores_for_any_header_value(value):
    """Signed values have single spaces, while sent values are unchanged."""
    headers = {**HEADERS, "x-odd": value}
    assert agree(signer(headers=headers), b"{}", PLAIN, NOW, headers=headers)["x-odd"] == value


_TEXT = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF, exclude_characters="\x7f"))
_KEYS = st.builds(Credentials, _TEXT, _TEXT, st.none() | _TEXT)
_NAMES = st.from_regex(r"x-[a-z0-9-]{1,20}", fullmatch=True).filter(
    lambda name: not name.startswith("x-amz-")
)


@given(
    st.lists(st.tuples(st.binary(max_size=300), _KEYS, st.floats(0, 4e9)), min_size=1, max_size=3),
    st.from_regex(r"[a-z]{2}-[a-z]{4,9}-[0-9]", fullmatch=True),
    st.dictionaries(_NAMES, _TEXT, max_size=4),
)
def test_signature_equals_botocores_for_any_sendable_request(requests, region, more):
    headers = {**HEADERS, **more}
    own = signer(region=region, headers=headers)
    for body, credentials, now in requests:
        agree(own, body, credentials, now, region=region, headers=headers)


# What would be more than one header


@pytest.mark.parametrize("end", ["\r", "\n", "\r\nx-amz-date: 1", "\0", "\x0b", "\x1c", "\x7f"])
def test_line_end_in_a_header_is_refused(end):
    bad = f"secret{end}"
    for credentials in (Credentials(bad, "s"), Credentials("a", "s", bad)):
        with pytest.raises(AwsConfiguration) as raised:
            signer().post(b"", credentials, NOW)
        assert "secret" not in raised.value.message
    for made in ({"host": bad}, {"region": bad}, {"headers": {"x-a": bad}}):
        with pytest.raises(AwsConfiguration):
            signer(**made)


def test_repr_of_credentials_hides_secrets():
    shown = repr(Credentials("AKIA", "secret", "token"))
    assert shown == "Credentials(access_key='AKIA')"
