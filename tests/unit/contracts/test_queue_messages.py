"""Messages keep SQS's rules. The oracle is AWS's own text, as botocore's model of SQS has it."""

from __future__ import annotations

import json
import re
import string

import pytest
from botocore.session import get_session

from ddbload.contracts.queue_messages import (
    MOST_BYTES,
    MOST_ENTRIES,
    MOST_ID_CHARACTERS,
    SHARED_BYTES,
    id_defect,
    message_body,
    message_entry,
)


@pytest.fixture(scope="module")
def said():
    """Function that returns AWS's text about an operation, or about a member of an entry."""
    model = get_session().get_service_model("sqs")

    def said(member: str | None = None) -> str:
        found = (
            model.operation_model("SendMessageBatch").documentation
            if member is None
            else model.shape_for("SendMessageBatchRequestEntry").members[member].documentation
        )
        return " ".join(re.sub("<[^>]+>", "", found).split())

    return said


def octets(text: str) -> str:
    return text.encode().decode("latin-1")


def test_limits_are_those_that_aws_documents(said):
    assert f"send up to {MOST_ENTRIES} messages" in said()
    both = "individual message size and the maximum total payload size"
    assert both in said()
    assert f"are both 1 MiB {MOST_BYTES:,} bytes" in said()
    assert MOST_ENTRIES * SHARED_BYTES <= MOST_BYTES < MOST_ENTRIES * (SHARED_BYTES + 1)


def test_body_has_only_characters_that_aws_allows(said):
    allowed = "#x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF"
    assert allowed in said()
    text = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x11000), 0x1FFFE, 0x10FFFF]))
    body = message_body(octets(json.dumps({"text": text}, ensure_ascii=False)))
    sent = body.encode("latin-1").decode()
    assert not re.search("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", sent)
    assert json.loads(sent) == {"text": text}


@pytest.mark.parametrize("member", ["MessageGroupId", "MessageDeduplicationId"])
def test_ids_have_the_characters_that_aws_allows(said, member):
    punctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
    documented = said(member).replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">")
    assert punctuation in documented
    assert f"The length of {member} is {MOST_ID_CHARACTERS} characters." in documented
    allowed = set(string.ascii_letters + string.digits + punctuation)
    for character in map(chr, range(0x300)):
        assert (id_defect(character) is None) == (character in allowed)
    assert id_defect("x" * 128) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("x" * 129, "129 characters"),
        ("Müller", "character"),
        ("a\n", "character"),
    ],
)
def test_refused_id_is_explained_without_its_text(text, says):
    found = id_defect(text)
    assert says in found
    assert not text or text not in found


def test_entry_says_what_it_is_given():
    body = '{"name":"Zoë \\"Q\\" 🚀\\u0001"}'
    entry = message_entry(octets(body), 'g"1', "run-1")
    assert json.loads(f"{{{entry}}}".encode("latin-1")) == {
        "MessageBody": body,
        "MessageGroupId": 'g"1',
        "MessageDeduplicationId": "run-1",
    }
    assert json.loads(f"{{{message_entry('{}')}}}") == {"MessageBody": "{}"}
