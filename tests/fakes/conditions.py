"""Condition expressions, as far as conditional puts need them.

``attribute_exists(a)``, ``attribute_not_exists(a)``, the comparisons ``= < <= > >=`` of an
attribute and a value, ``AND``, ``OR``, ``NOT`` and parentheses. ``a`` is a top-level attribute.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

from tests.fakes.client import Refused
from tests.fakes.dynamodb_values import Item, Value, invalid, stored

_TOKEN = re.compile(r"\s*(<=|>=|[()<>=,]|[#:]?[A-Za-z_][A-Za-z0-9_]*)")
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def holds(params: dict[str, Any], item: Item | None) -> bool:
    """Evaluate the ConditionExpression of a call's ``params`` for the stored item.

    Raises Refused (ValidationException) for an expression that does not parse, and for names and
    values that are missing or not used.
    """
    expression = params.get("ConditionExpression")
    names = params.get("ExpressionAttributeNames", {})
    values = params.get("ExpressionAttributeValues", {})
    if expression is None:
        if names or values:
            raise invalid("ExpressionAttributeNames can only be specified when using expressions")
        return True
    parser = _Parser(expression, names, values)
    result = parser.whole()(item or {})
    for kind, given in (("Names", names), ("Values", values)):
        unused = given.keys() - parser.used
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
        left = self._operand(token)
        compare = _COMPARE.get(self._take())
        if compare is None:
            raise _syntax_error()
        right = self._operand(self._take())
        return lambda item: _compared(compare, left(item), right(item))

    def _operand(self, token: str) -> Callable[[Item], Value | None]:
        if token.startswith(":"):
            if token not in self._values:
                raise invalid(
                    f"Invalid ConditionExpression: attribute value {token} is not defined"
                )
            self.used.add(token)
            value = stored(self._values[token])
            return lambda _item: value
        name = self._name(token)
        return lambda item: item.get(name)

    def _name(self, token: str) -> str:
        if token.startswith("#"):
            if token not in self._names:
                raise invalid(f"Invalid ConditionExpression: attribute name {token} is not defined")
            self.used.add(token)
            return self._names[token]
        if not token.isidentifier():
            raise _syntax_error()
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
            raise invalid(f"Invalid ConditionExpression: operand of type {kind} has no order")


def _syntax_error() -> Refused:
    return invalid("Invalid ConditionExpression: Syntax error, or not known to this fake")
