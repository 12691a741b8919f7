"""Condition expressions, as far as conditional writes need them.

``attribute_exists(a)``, ``attribute_not_exists(a)``, ``begins_with(a, v)``, ``contains(a, v)``, the
comparisons ``= <> < <= > >=`` of an attribute and a value, ``a BETWEEN v AND v``, ``AND``, ``OR``,
``NOT`` and parentheses. ``a`` is a top-level attribute.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Iterator
from decimal import Decimal
from typing import Any

from tests.fakes.client import Refused
from tests.fakes.dynamodb_updates import MAX_BYTES
from tests.fakes.dynamodb_values import Item, Value, invalid, stored

_TOKEN = re.compile(r"\s*(<=|>=|<>|[()<>=,]|[#:][A-Za-z0-9_]+|[A-Za-z_][A-Za-z0-9_]*)")
RESERVED = frozenset({"COUNT", "DATE", "NAME", "STATUS", "TIME", "USER", "VALUE", "YEAR"})
"""A few of the 573 words."""
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "<>": operator.ne,
}


def holds(params: dict[str, Any], item: Item | None, used: Collection[str] = ()) -> bool:
    """Evaluate the ConditionExpression of a call's ``params`` for the stored item.

    ``used``: placeholders that another expression uses. Raises Refused (ValidationException) for an
    expression that does not parse, and for names and values that are missing or not used.
    """
    expression = params.get("ConditionExpression")
    names = params.get("ExpressionAttributeNames", {})
    values = params.get("ExpressionAttributeValues", {})
    if expression is None and not used:
        if names or values:
            raise invalid("ExpressionAttributeNames can only be specified when using expressions")
        return True
    parser = _Parser(expression or "", names, values)
    if len((expression or "").encode()) > MAX_BYTES:
        raise invalid(
            "Invalid ConditionExpression: Expression size has exceeded the maximum allowed size;"
            f" expression size: {len((expression or '').encode())}"
        )
    result = expression is None or parser.whole()(item or {})
    for kind, given in (("Names", names), ("Values", values)):
        unused = given.keys() - parser.used - set(used)
        if unused:
            raise invalid(
                f"Value provided in ExpressionAttribute{kind} unused in expressions:"
                f" keys: {{{', '.join(sorted(unused))}}}"
            )
    return result


Test = Callable[[Item], bool]


class _Parser:
    def __init__(self, text: str, names: dict[str, str], values: dict[str, Value]) -> None:
        self.used: set[str] = set()
        self._names = names
        self._values = values
        self._tokens = [*_tokens(text), ""]
        self._at = 0

    def whole(self) -> Test:
        test = self._either()
        self._expect("")
        return test

    def _either(self) -> Test:
        tests = [self._both()]
        while self._accept("OR"):
            tests.append(self._both())
        return lambda item: any(test(item) for test in tests)

    def _both(self) -> Test:
        tests = [self._single()]
        while self._accept("AND"):
            tests.append(self._single())
        return lambda item: all(test(item) for test in tests)

    def _single(self) -> Test:
        if self._accept("NOT"):
            inner = self._single()
            return lambda item: not inner(item)
        if self._accept("("):
            inner = self._either()
            self._expect(")")
            return inner
        token = self._take()
        if token in ("attribute_exists", "attribute_not_exists"):
            self._expect("(")
            name = self._name(self._take())
            self._expect(")")
            wanted = token == "attribute_exists"
            return lambda item: (name in item) is wanted
        if self._tokens[self._at] == "(":
            return self._function(token)
        left = self._operand(token)
        if self._accept("BETWEEN"):
            low = self._operand(self._take())
            self._expect("AND")
            high = self._operand(self._take())
            if _compared(operator.gt, low({}), high({})):
                raise invalid(
                    "Invalid ConditionExpression: The BETWEEN operator requires upper bound to be"
                    " greater than or equal to lower bound; lower bound operand: AttributeValue:"
                    f" {low({})}, upper bound operand: AttributeValue: {high({})}"
                )
            return lambda item: (
                _compared(operator.le, low(item), left(item))
                and _compared(operator.le, left(item), high(item))
            )
        compare = _COMPARE.get(self._take())
        if compare is None:
            raise _syntax_error()
        right = self._operand(self._take())
        return lambda item: _compared(compare, left(item), right(item))

    def _function(self, name: str) -> Test:
        if name not in ("attribute_type", "begins_with", "contains"):
            raise invalid(f"Invalid ConditionExpression: Invalid function name; function: {name}")
        self._expect("(")
        left = self._operand(self._take())
        self._expect(",")
        right = self._operand(self._take())
        self._expect(")")
        if name != "contains":
            _check_argument(name, right({}))

        def test(item: Item) -> bool:
            one, other = left(item), right(item)
            if one is None or other is None:
                return False
            ((kind, text),) = one.items()
            ((other_kind, part),) = other.items()
            if name == "attribute_type":
                return bool(kind == part)
            if name == "begins_with":
                return kind == other_kind == "S" and text.startswith(part)
            return kind in (other_kind, f"{other_kind}S") and part in text

        return test

    def _operand(self, token: str) -> Callable[[Item], Value | None]:
        if token.startswith(":"):
            if token not in self._values:
                raise invalid(
                    "Invalid ConditionExpression: An expression attribute value used in expression"
                    f" is not defined; attribute value: {token}"
                )
            self.used.add(token)
            value = stored(self._values[token])
            return lambda _item: value
        name = self._name(token)
        return lambda item: item.get(name)

    def _name(self, token: str) -> str:
        if token.startswith("#"):
            if token not in self._names:
                raise invalid(
                    "Invalid ConditionExpression: An expression attribute name used in the document"
                    f" path is not defined; attribute name: {token}"
                )
            self.used.add(token)
            return self._names[token]
        if not token.isidentifier():
            raise _syntax_error()
        if token.upper() in RESERVED:
            raise invalid(
                "Invalid ConditionExpression: Attribute name is a reserved keyword; reserved"
                f" keyword: {token}"
            )
        return token

    def _accept(self, token: str) -> bool:
        if self._tokens[self._at].upper() != token:
            return False
        self._at += 1
        return True

    def _expect(self, token: str) -> None:
        if self._take() != token:
            raise _syntax_error()

    def _take(self) -> str:
        token = self._tokens[self._at]
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token


def _tokens(text: str) -> Iterator[str]:
    position, text = 0, text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if not match:
            raise _syntax_error()
        yield match[1]
        position = match.end()


def _compared(compare: Callable[[Any, Any], bool], left: Value | None, right: Value | None) -> bool:
    # Values of two types are never equal nor in order, and nothing compares with what is missing.
    if compare is operator.ne:
        return not _compared(operator.eq, left, right)
    if left is None or right is None or left.keys() != right.keys():
        return False
    ((kind, first),) = left.items()
    second = right[kind]
    match kind:
        case "N":
            return compare(Decimal(first), Decimal(second))
        case "S":
            return compare(first.encode(), second.encode())
        case "B":
            return compare(first, second)
        case _ if compare is operator.eq:
            return bool(first == second)
        case _:
            raise invalid(
                "Invalid ConditionExpression: Incorrect operand type for operator or function;"
                f" operator or function: <, operand type: {kind}"
            )


def _check_argument(function: str, value: Value | None) -> None:
    """Refuse a value that a function cannot take, whatever the item is."""
    if value is None:
        return
    ((kind, text),) = value.items()
    if kind != "S":
        raise invalid(
            "Invalid ConditionExpression: Incorrect operand type for operator or function;"
            f" operator or function: {function}, operand type: {kind}"
        )
    if function == "attribute_type" and text not in _TYPES:
        raise invalid(
            f"Invalid ConditionExpression: Invalid attribute type name found; type: {text}"
        )


_TYPES = {"S", "N", "B", "SS", "NS", "BS", "L", "M", "BOOL", "NULL"}


def _syntax_error() -> Refused:
    return invalid("Invalid ConditionExpression: Syntax error, or not known to this fake")
