"""Tests of strict reading of JSON objects."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import pytest

from ddbload.contracts.messages import JsonObjectReader, is_text, json_type_name
from ddbload.errors import InvalidPayload


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, "null"),
        (True, "a boolean"),
        (1, "a number"),
        (1.5, "a number"),
        ("", "a string"),
        ([], "a list"),
        ((), "a list"),
        (b"", "bytes"),
    ],
)
def test_reader_refuses_values_that_are_not_objects(value: object, kind: str) -> None:
    assert json_type_name(value) == kind
    with pytest.raises(InvalidPayload, match=f"^the input must be a JSON object, not {kind}$"):
        JsonObjectReader(value)
    with pytest.raises(InvalidPayload, match=f"^'a.b' must be a JSON object, not {kind}$"):
        JsonObjectReader(value, "a.b")


def test_reader_accepts_any_mapping() -> None:
    assert JsonObjectReader(MappingProxyType({"a": 1})).whole("a") == 1


def test_reader_refuses_unknown_fields_at_the_end() -> None:
    fields = JsonObjectReader({"a": 1, "z": 2, "c": 3}, "top")
    fields.raw("a")
    fields.raw("b")
    with (
        pytest.raises(
            InvalidPayload, match=r"^unknown field 'top\.c', 'top\.z'; known here: a, b$"
        ),
        fields,
    ):
        pass


HALF = "\ud83d"


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (HALF, lambda fields: fields.text("x")),
        ("a" + HALF, lambda fields: fields.optional_text("x")),
        (["a", HALF], lambda fields: fields.texts("x")),
        ({HALF: "S"}, lambda fields: fields.text_map("x")),
    ],
)
def test_lone_surrogate_is_refused(value: Any, read: Callable[[JsonObjectReader], object]) -> None:
    with pytest.raises(InvalidPayload, match="'x' must be text that UTF-8 can write"):
        read(JsonObjectReader({"x": value}))


@pytest.mark.parametrize("text", ["", "a", "\U0001f600", "\u00e9\ue000\ud7ff"])
def test_is_text_accepts_utf8(text: str) -> None:
    assert is_text(text)


def test_error_lists_ten_unknown_fields_at_most() -> None:
    fields = JsonObjectReader({f"field-{number:04}": number for number in range(2345)})
    with pytest.raises(InvalidPayload) as raised:
        fields.refuse_unknown()
    assert "'field-0009' and 2,335 more; known here: " in raised.value.message
    assert "field-0010" not in raised.value.message


def test_unknown_fields_do_not_hide_another_error() -> None:
    with pytest.raises(KeyError), JsonObjectReader({"a": 1}):
        raise KeyError


def test_null_reads_as_the_default() -> None:
    with JsonObjectReader({"a": None}) as f:
        assert not f.has("a")
        assert f.text("a", "x") == "x"
        assert f.whole("a", 7) == 7
        assert f.flag("a", default=True) is True
        assert f.number("a", 1.5) == 1.5
        assert f.choice("a", ["x", "y"], "y") == "y"
        assert f.optional_text("a") is None
        assert f.optional_whole("a") is None
        assert f.optional_number("a") is None
        assert f.text_map("a") == {}
        with f.nested("a") as inner:
            assert inner.path("b") == "a.b"


@pytest.mark.parametrize(
    "read",
    [
        JsonObjectReader.text,
        JsonObjectReader.required,
        JsonObjectReader.mapping,
        JsonObjectReader.texts,
        JsonObjectReader.items,
        JsonObjectReader.whole,
        JsonObjectReader.flag,
    ],
)
@pytest.mark.parametrize("value", [{}, {"a": None}])
def test_missing_required_field_is_named(
    read: Callable[[JsonObjectReader, str], object], value: object
) -> None:
    with pytest.raises(InvalidPayload, match=r"^'top\.a' .*is missing"):
        read(JsonObjectReader(value, "top"), "a")


@pytest.mark.parametrize(
    ("read", "right", "wrong"),
    [
        (JsonObjectReader.text, ["x", " "], ["", 1, True, [], {}]),
        (JsonObjectReader.optional_text, ["x"], ["", 1, False]),
        (JsonObjectReader.flag, [True, False], [0, 1, "true", []]),
        (JsonObjectReader.whole, [0, 1, 2**53], [-1, 2**53 + 1, 1.0, True, "1", []]),
        (JsonObjectReader.optional_whole, [0, 5], [-1, 0.5, False]),
        (
            JsonObjectReader.number,
            [0, 0.0, 1e308, 7],
            [-0.1, True, "1", float("nan"), float("inf"), []],
        ),
        (JsonObjectReader.optional_number, [2.5], [-1, False, "x", float("nan")]),
        (JsonObjectReader.texts, [["a", ""], []], ["a", [1], [None], {"a": "b"}, 0]),
        (JsonObjectReader.items, [[], [1, {}]], ["a", {}, 0]),
        (JsonObjectReader.mapping, [{}, {"a": [1]}], [[], "a", [{}], 1]),
        (JsonObjectReader.text_map, [{}, {"a": ""}], [[], "a", {"a": 1}, {"a": None}]),
    ],
)
def test_wrong_type_is_refused(
    read: Callable[[JsonObjectReader, str], Any], right: list[Any], wrong: list[Any]
) -> None:
    for value in right:
        with JsonObjectReader({"a": value}) as f:
            found = read(f, "a")
        assert found == (tuple(value) if read is JsonObjectReader.texts else value)
    for value in wrong:
        with pytest.raises(InvalidPayload, match=r"^'a(\.a)?' must be "):
            read(JsonObjectReader({"a": value}), "a")


def test_limits_are_inclusive() -> None:
    f = JsonObjectReader({"a": 3, "b": 1.5})
    assert f.whole("a", least=3, most=3) == 3
    assert f.number("b", least=1.5) == 1.5
    with pytest.raises(InvalidPayload, match=r"^'a' must be a whole number from 4 to 9, not 3$"):
        f.whole("a", least=4, most=9)
    with pytest.raises(InvalidPayload, match=r"^'a' must be a whole number at least 4, not 3$"):
        f.whole("a", least=4)
    with pytest.raises(InvalidPayload, match=r"^'b' must be a number of at least 2\.5, not 1\.5$"):
        f.number("b", least=2.5)


def test_wrong_choice_lists_the_known_words() -> None:
    f = JsonObjectReader({"a": "z"}, "top")
    with pytest.raises(InvalidPayload, match=r"^'top\.a' must be one of x, y, not \"z\"$"):
        f.choice("a", ["x", "y"])


def test_error_shows_the_value_as_short_json() -> None:
    f = JsonObjectReader({}, "top")
    assert f.wrong("a", True, "a number").message == "'top.a' must be a number, not true"
    assert f.wrong("a", None, "a number").message == "'top.a' must be a number, and is missing"
    shown = f.wrong("a", "x" * 500, "a number").message.split("not ")[1]
    assert len(shown) == 60
    assert shown.endswith("...")
