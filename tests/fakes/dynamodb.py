"""A strict in-memory DynamoDB with the interface of botocore's client."""

from __future__ import annotations

import base64
import copy
import json
import re
import time
import uuid
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from tests.fakes.client import Call, FakeClient, Refused, Script, refused
from tests.fakes.conditions import holds
from tests.fakes.dynamodb_answers import condition_failed, consumed, description
from tests.fakes.dynamodb_faults import Fault, respelt
from tests.fakes.dynamodb_partiql import MAX_STATEMENT, parsed_insert
from tests.fakes.dynamodb_tables import Key, Table, table_from
from tests.fakes.dynamodb_updates import parsed_update
from tests.fakes.dynamodb_values import Item, invalid, item_size
from tests.fakes.in_flight import InFlight, Overlap

MAX_BATCH = 25
MAX_REQUEST_BYTES = 16 * 1024 * 1024
PAGE_BYTES = 1024 * 1024

Params = dict[str, Any]
Answer = dict[str, Any]


@dataclass(frozen=True)
class Write:
    """A recorded write of one item: ``item`` as stored, None for a deletion."""

    call: int
    table: str
    key: Key
    item: Item | None


class FakeDynamoDB(FakeClient):
    """In-memory DynamoDB with the service's limits. Thread-safe.

    Raises botocore's exceptions. ``faults`` is the script of faults. ``calls`` records the calls,
    ``writes`` the writes that took effect, in order, ``overlaps`` the writes of a key that began
    before an earlier one had ended, and ``most_in_flight`` the largest number of concurrent writing
    calls. Every write sleeps ``latency`` seconds by ``sleep`` before it takes effect. Without
    ``knows_statements`` it refuses BatchExecuteStatement, as dynalite does.
    """

    service = "dynamodb"

    def __init__(
        self,
        region: str = "us-east-1",
        latency: float = 0.0,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        super().__init__(region)
        self.faults: Script[Fault] = Script()
        self.writes: list[Write] = []
        self.latency = latency
        self._sleep = sleep
        self._tables: dict[str, Table] = {}
        self._made = 0
        self._in_flight = InFlight()
        self.knows_statements = True

    @property
    def overlaps(self) -> list[Overlap]:
        return self._in_flight.overlaps

    @property
    def most_in_flight(self) -> int:
        return self._in_flight.most

    def items(self, table: str) -> list[Item]:
        """List the items of a table in a scan's order. Raises KeyError for an unknown table."""
        with self._lock:
            found = self._tables[table]
            return [copy.deepcopy(found.items[key]) for key in sorted(found.items, key=found.place)]

    def create_table(self, **params: Any) -> Answer:
        return self._call("create_table", params, self._create_table)

    def describe_table(self, **params: Any) -> Answer:
        return self._call("describe_table", params, self._describe_table)

    def delete_table(self, **params: Any) -> Answer:
        return self._call("delete_table", params, self._delete_table)

    def batch_write_item(self, **params: Any) -> Answer:
        return self._call("batch_write_item", params, self._batch_write_item)

    def batch_execute_statement(self, **params: Any) -> Answer:
        return self._call("batch_execute_statement", params, self._batch_execute_statement)

    def put_item(self, **params: Any) -> Answer:
        return self._call("put_item", params, self._put_item)

    def update_item(self, **params: Any) -> Answer:
        return self._call("update_item", params, self._update_item)

    def delete_item(self, **params: Any) -> Answer:
        return self._call("delete_item", params, self._delete_item)

    def get_item(self, **params: Any) -> Answer:
        return self._call("get_item", params, self._get_item)

    def scan(self, **params: Any) -> Answer:
        return self._call("scan", params, self._scan)

    def _call(
        self, operation: str, params: Params, answer: Callable[[Call, Fault], Answer]
    ) -> Answer:
        # A copy: the caller may change its lists after the call.
        call = self._record(operation, copy.deepcopy(params), KNOWN[operation])
        fault = self.faults.next(operation, params) or Fault()
        if fault.before:
            fault.before()
        try:
            return answer(call, fault) | {"ResponseMetadata": self._metadata(200)}
        except Refused as refusal:
            raise self._exception(operation, refusal.error) from None

    def _create_table(self, call: Call, fault: Fault) -> Answer:
        self._fail(call, fault)
        params = copy.deepcopy(call.params)
        name = params["TableName"]
        if not re.fullmatch(r"[a-zA-Z0-9_.-]{3,255}", name):
            raise invalid(f"TableName must be 3 to 255 of a-z, A-Z, 0-9, _, . and -: {name}")
        if params.get("BillingMode", "PROVISIONED") == "PROVISIONED" and (
            "ProvisionedThroughput" not in params
        ):
            raise invalid("No provisioned throughput specified for the table")
        with self._lock:
            if name in self._tables:
                message = f"Table already exists: {name}"
                raise refused("ResourceInUseException", 400, message)
            self._made += 1
            table_id = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{name}/{self._made}"))
            table = self._tables[name] = table_from(params, table_id)
        return {"TableDescription": description(table, self.meta.region_name, "CREATING")}

    def _describe_table(self, call: Call, fault: Fault) -> Answer:
        self._fail(call, fault)
        with self._lock:
            return {"Table": description(self._table(call.params), self.meta.region_name, "ACTIVE")}

    def _delete_table(self, call: Call, fault: Fault) -> Answer:
        self._fail(call, fault)
        with self._lock:
            table = self._table(call.params)
            del self._tables[table.name]
        return {"TableDescription": description(table, self.meta.region_name, "DELETING")}

    def _batch_write_item(self, call: Call, fault: Fault) -> Answer:
        with self._lock:
            requests = self._checked_batch(call)
        with self._in_flight.writing(call.number, [(w.table, w.key) for w, _ in requests]):
            self._sleep_for(fault)
            if not fault.landed:
                self._fail(call, fault)
            back: dict[str, list[Any]] = {}
            costs: dict[str, dict[str | None, float]] = {w.table: {None: 0.0} for w, _ in requests}
            with self._lock:
                for position, (write, request) in enumerate(requests):
                    if fault.unprocessed and fault.unprocessed(position, request):
                        echo = respelt(request, fault.spell or str)
                        back.setdefault(write.table, []).insert(0, echo)
                    else:
                        _add(costs[write.table], self._apply(write))
            if fault.landed:
                self._fail(call, fault)
        answer: Answer = {"UnprocessedItems": back}
        how = call.params.get("ReturnConsumedCapacity", "NONE")
        if how != "NONE":
            answer["ConsumedCapacity"] = [
                consumed(self._tables[table], cost, how) for table, cost in costs.items()
            ]
        return fault.rewrite(answer) if fault.rewrite else answer

    def _checked_batch(self, call: Call) -> list[tuple[Write, dict[str, Any]]]:
        # botocore itself refuses a table's empty list, but not a batch without tables.
        tables = call.params["RequestItems"]
        if not tables:
            raise invalid("RequestItems must have length greater than or equal to 1")
        if _wire_bytes(call.params) > MAX_REQUEST_BYTES:
            raise refused("413", 413, "Request Entity Too Large")
        if sum(len(requests) for requests in tables.values()) > MAX_BATCH:
            raise invalid("Too many items requested for the BatchWriteItem call")
        checked = []
        for name, requests in tables.items():
            table = self._table({"TableName": name})
            for request in requests:
                key, item = _parsed(table, request)
                checked.append((Write(call.number, name, key, item), request))
        if len({(write.table, write.key) for write, _ in checked}) < len(checked):
            raise invalid("Provided list of item keys contains duplicates")
        return checked

    def _batch_execute_statement(self, call: Call, fault: Fault) -> Answer:
        if not self.knows_statements:
            raise refused("UnknownOperationException", 400, "")
        with self._lock:
            statements = self._checked_statements(call)
        keys = [(s.table, s.key) for s in statements if isinstance(s, Write)]
        with self._in_flight.writing(call.number, keys):
            self._sleep_for(fault)
            if not fault.landed:
                self._fail(call, fault)
            results: list[Any] = []
            capacity: list[Any] = []
            with self._lock:
                for position, statement in enumerate(statements):
                    code = fault.statement(position) if fault.statement else None
                    if code is None and fault.unprocessed and fault.unprocessed(position, {}):
                        code = "ThrottlingError"
                    result = self._insert(statement, code, capacity)
                    if code is not None and code.startswith("Landed"):
                        code = code.removeprefix("Landed")
                        result = {"Error": {"Code": code, "Message": "made up"}}
                    results.append(result)
            if fault.landed:
                self._fail(call, fault)
        answer: Answer = {"Responses": results}
        if call.params.get("ReturnConsumedCapacity", "NONE") != "NONE":
            answer["ConsumedCapacity"] = capacity
        return fault.rewrite(answer) if fault.rewrite else answer

    def _insert(self, statement: Write | Refused, code: str | None, capacity: list[Any]) -> Answer:
        """Carry a statement out, unless its fault is `code`: Landed… fails after it."""
        if isinstance(statement, Refused):
            kind = {"ResourceNotFoundException": "ResourceNotFound"}
            code = kind.get(statement.error.code, "ValidationError")
            return {"Error": {"Code": code, "Message": statement.error.message}}
        table = self._tables[statement.table]
        if code is not None and not code.startswith("Landed"):
            error = {"Code": code, "Message": "made up"}
            return {"Error": error, "TableName": table.name}
        old = table.items.get(statement.key)
        if old is not None:
            capacity.append(consumed(table, table.cost(old, old), "TOTAL"))
            error = {"Code": "DuplicateItem", "Message": "Duplicate primary key exists in table"}
            return {"Error": error, "TableName": table.name}
        capacity.append(consumed(table, self._apply(statement), "TOTAL"))
        return {"TableName": table.name}

    def _checked_statements(self, call: Call) -> list[Write | Refused]:
        given = call.params["Statements"]
        if _wire_bytes(call.params) > MAX_REQUEST_BYTES:
            raise refused("413", 413, "Request Entity Too Large")
        if any(len(each["Statement"]) > MAX_STATEMENT for each in given):
            raise invalid("Member must have length less than or equal to 8192")
        if len(given) > MAX_BATCH:
            raise invalid("BatchWriteItem cannot write more than 25 items")
        checked: list[Write | Refused] = []
        for each in given:
            try:
                name, item = parsed_insert(each["Statement"], each.get("Parameters", []))
                table = self._table({"TableName": name})
                item = table.checked(item, in_batch=False)
                checked.append(Write(call.number, name, table.key_of(item), item))
            except Refused as refusal:
                checked.append(refusal)
        keys = [(each.table, each.key) for each in checked if isinstance(each, Write)]
        if len(set(keys)) < len(keys):
            raise invalid("Provided list of item keys contains duplicates")
        return checked

    def _put_item(self, call: Call, fault: Fault) -> Answer:
        with self._lock:
            table = self._table(call.params)
            item = table.checked(call.params["Item"], in_batch=False)
        return self._write_one(call, fault, table, table.key_of(item), lambda _old: item)

    def _update_item(self, call: Call, fault: Fault) -> Answer:
        with self._lock:
            table = self._table(call.params)
            key = table.checked_key(call.params["Key"])
            update = parsed_update(call.params, table)
        named = table.named(key)

        def changed(old: Item | None) -> Item | None:
            new = update.applied(old, named)
            return None if new is None else table.checked(new, in_batch=False)

        return self._write_one(call, fault, table, key, changed, update.used)

    def _delete_item(self, call: Call, fault: Fault) -> Answer:
        with self._lock:
            table = self._table(call.params)
            key = table.checked_key(call.params["Key"])
        return self._write_one(call, fault, table, key, lambda _old: None)

    def _write_one(
        self,
        call: Call,
        fault: Fault,
        table: Table,
        key: Key,
        changed: Callable[[Item | None], Item | None],
        used: Collection[str] = (),
    ) -> Answer:
        """Write one item under its condition; `used` are the placeholders used besides it."""
        params = call.params
        holds(params, None, used)  # refuses a bad expression before anything else happens
        with self._in_flight.writing(call.number, [(table.name, key)]):
            self._sleep_for(fault)
            if not fault.landed:
                self._fail(call, fault)
            with self._lock:
                old = table.items.get(key)
                if not holds(params, old, used):
                    raise condition_failed(params, old)
                cost = self._apply(Write(call.number, table.name, key, changed(old)))
            if fault.landed:
                self._fail(call, fault)
        answer: Answer = {}
        if params.get("ReturnValues") == "ALL_OLD" and old is not None:
            answer["Attributes"] = copy.deepcopy(old)
        how = params.get("ReturnConsumedCapacity", "NONE")
        if how != "NONE":
            answer["ConsumedCapacity"] = consumed(table, cost, how)
        return fault.rewrite(answer) if fault.rewrite else answer

    def _get_item(self, call: Call, fault: Fault) -> Answer:
        self._fail(call, fault)
        with self._lock:
            table = self._table(call.params)
            item = table.items.get(table.checked_key(call.params["Key"]))
            return {} if item is None else {"Item": copy.deepcopy(item)}

    def _scan(self, call: Call, fault: Fault) -> Answer:
        self._fail(call, fault)
        params = call.params
        with self._lock:
            table = self._table(params)
            keys = sorted(table.items, key=table.place)
            if "ExclusiveStartKey" in params:
                start = table.place(table.checked_key(params["ExclusiveStartKey"]))
                keys = [key for key in keys if table.place(key) > start]
            page, total, last = [], 0, None
            for key in keys:
                page.append(copy.deepcopy(table.items[key]))
                total += item_size(page[-1])
                if len(page) == params.get("Limit") or total >= PAGE_BYTES:
                    last = table.named(key)
                    break
        answer: Answer = {"Count": len(page), "ScannedCount": len(page)}
        if params.get("Select") != "COUNT":
            answer["Items"] = page
        return answer | ({"LastEvaluatedKey": last} if last else {})

    def _apply(self, write: Write) -> dict[str | None, float]:
        table = self._tables[write.table]
        old = table.items.pop(write.key, None)
        if write.item is not None:
            table.items[write.key] = write.item
        self.writes.append(write)
        return table.cost(old, write.item)

    def _sleep_for(self, fault: Fault) -> None:
        if self.latency or fault.delay:
            self._sleep(self.latency + fault.delay)

    def _fail(self, call: Call, fault: Fault) -> None:
        if fault.raises is not None:
            raise self._exception(call.operation, fault.raises)

    def _table(self, params: Params) -> Table:
        if params["TableName"] not in self._tables:
            raise refused("ResourceNotFoundException", 400, "Requested resource not found")
        return self._tables[params["TableName"]]


_ONE_ROW = frozenset(
    {
        "TableName",
        "ConditionExpression",
        "ExpressionAttributeNames",
        "ExpressionAttributeValues",
        "ReturnValues",
        "ReturnConsumedCapacity",
        "ReturnValuesOnConditionCheckFailure",
    }
)
KNOWN = {
    "create_table": frozenset(
        {
            "TableName",
            "KeySchema",
            "AttributeDefinitions",
            "BillingMode",
            "ProvisionedThroughput",
            "GlobalSecondaryIndexes",
            "LocalSecondaryIndexes",
        }
    ),
    "describe_table": frozenset({"TableName"}),
    "delete_table": frozenset({"TableName"}),
    "batch_write_item": frozenset({"RequestItems", "ReturnConsumedCapacity"}),
    "batch_execute_statement": frozenset({"Statements", "ReturnConsumedCapacity"}),
    "put_item": _ONE_ROW | {"Item"},
    "update_item": _ONE_ROW | {"Key", "UpdateExpression"},
    "delete_item": _ONE_ROW | {"Key"},
    "get_item": frozenset({"TableName", "Key", "ConsistentRead"}),
    "scan": frozenset({"TableName", "Limit", "ExclusiveStartKey", "ConsistentRead", "Select"}),
}


def _parsed(table: Table, request: dict[str, Any]) -> tuple[Key, Item | None]:
    if len(request) != 1:
        raise invalid("A write request holds one of PutRequest and DeleteRequest")
    if "PutRequest" in request:
        item = table.checked(request["PutRequest"]["Item"], in_batch=True)
        return table.key_of(item), item
    return table.checked_key(request["DeleteRequest"]["Key"]), None


def _add(total: dict[str | None, float], cost: dict[str | None, float]) -> None:
    for name, units in cost.items():
        total[name] = total.get(name, 0.0) + units


def _wire_bytes(params: Params) -> int:
    def binary(value: Any) -> str:
        return base64.b64encode(bytes(value)).decode()

    return len(json.dumps(params, default=binary))
