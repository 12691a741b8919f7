"""Rules of SQS for messages, and the text of a message in a request. Pure.

They are those of SendMessageBatch and SendMessageBatchRequestEntry in the API reference. Texts are
octets: characters U+0000 to U+00FF, one for each byte of UTF-8.
"""

from __future__ import annotations

import re
from json.encoder import encode_basestring as quoted

MOST_ENTRIES = 10
"""Most messages of a request."""
MOST_BYTES = 1_048_576
"""Most bytes of a message, and of all messages of a request. A queue may allow fewer a message."""
SHARED_BYTES = MOST_BYTES // MOST_ENTRIES
"""Most bytes of a message that shares its request with others."""
MOST_ID_CHARACTERS = 128
"""Most characters of the ids of a group and of deduplication."""
FIFO_SUFFIX = ".fifo"
"""End of each FIFO queue's name, and of no other's."""
DEDUPLICATION_SECONDS = 300
"""Time in which a FIFO queue delivers no second message with a deduplication id."""

DELIVERIES = STANDARD, FIFO = ("standard", "fifo")
DELIVERY_TEXTS = {
    STANDARD: "at least once: a standard queue may get a message twice after a crash or a lost"
    " answer",
    FIFO: "once, in order within each group; a resume more than three minutes after a crash may"
    " send a message twice",
}
"""What the kinds of queues promise about the messages of a run."""

# Letters, digits and !"#$%&'()*+,-./:;<=>?@[\]^_`{|}~, which is ASCII without blanks.
_FIFO_ID = re.compile(r"[!-~]{1,128}")
_REFUSED_CHARACTERS = {"\xef\xbf\xbe": "\\ufffe", "\xef\xbf\xbf": "\\uffff"}
"""Characters that SQS refuses and JSON need not escape, and their escapes."""


def id_defect(text: str) -> str | None:
    """Return why SQS refuses the id of a group or of deduplication; None if it takes it."""
    if _FIFO_ID.fullmatch(text):
        return None
    if not text:
        return "is empty"
    if len(text) > MOST_ID_CHARACTERS:
        return f"has {len(text):,} characters, and SQS takes {MOST_ID_CHARACTERS}"
    return (
        "has a blank or another character that SQS refuses; letters, digits and punctuation of"
        " ASCII are allowed"
    )


def message_body(document: str) -> str:
    """Return the body of a message that is a JSON document, in octets.

    SQS refuses control characters, which JSON escapes anyway, and U+FFFE and U+FFFF.
    """
    for character, escape in _REFUSED_CHARACTERS.items():
        if character in document:
            document = document.replace(character, escape)
    return document


def message_entry(body: str, group: str | None = None, deduplication: str | None = None) -> str:
    """Return the members of a request's entry, without its id and braces, in octets."""
    entry = f'"MessageBody":{quoted(body)}'
    if group is not None:
        entry += f',"MessageGroupId":{quoted(group)}'
    if deduplication is not None:
        entry += f',"MessageDeduplicationId":{quoted(deduplication)}'
    return entry
