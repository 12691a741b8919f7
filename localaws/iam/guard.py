"""Record every call of a role, and refuse calls that AWS would refuse."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from localaws.iam import s3
from localaws.iam.actions import required_actions
from localaws.iam.policies import Policies, UnsupportedPolicy, Verdict
from localaws.iam.refusals import denial_message
from localaws.iam.requests import Call, Place, Request, UnknownCall


class Guard:
    """Call observer that evaluates policies (see `localaws.call_observers`).

    Args:
        policy_documents: Returns a role's current policies, by the role's ARN.
        record: File for one JSON line per distinct call, with `role`, `action`, `resource` and
            `allowed`; or with `role` and `unknown` if the request is not supported here.
        enforce: Refuse calls that are not allowed or not supported.
    """

    def __init__(
        self,
        policy_documents: Callable[[str], Mapping[str, str]],
        *,
        record: Path | None = None,
        enforce: bool = False,
    ) -> None:
        self._policy_documents = policy_documents
        self._record = record
        self._enforce = enforce
        self._lock = threading.Lock()
        self._recorded: set[str] = set()
        self._policies: dict[str, tuple[Mapping[str, str], Policies]] = {}

    def __call__(self, principal: str, service: str, region: str, request: Request) -> str | None:
        """Return the reason for which AWS would refuse the call; None if it would not.

        Always None without `enforce`. `principal`: the role's ARN; `service`: the signing name.
        """
        try:
            calls = required_actions(service, request, _place(principal, region))
        except UnknownCall as unknown:
            self._write_record({"role": principal, "unknown": str(unknown)})
            why = f"localaws does not know which permissions this needs: {unknown}"
            return why if self._enforce else None
        reasons = [self._judge(principal, call) for call in calls]
        if not self._enforce:
            return None
        return next((why for why in reasons if why is not None), None)

    def check_missing_object(self, principal: str, region: str, request: Request) -> str | None:
        """Return the reason to answer 403, not 404, for a missing object; else None.

        A role that may list the bucket gets 404.
        """
        try:
            needed = s3.missing_object_action(request, _place(principal, region))
        except UnknownCall:
            return None
        if needed is None:
            return None
        why = self._judge(principal, needed)
        return why if self._enforce else None

    def _judge(self, role: str, call: Call) -> str | None:
        line: dict[str, Any] = {
            "role": role,
            "action": call.action,
            "resource": call.resource,
            "context": dict(call.context),
        }
        try:
            verdict = self._policies_of(role).judge(call)
        except UnsupportedPolicy as unsupported:
            self._write_record(line | {"allowed": False, "unsupported": str(unsupported)})
            return f"localaws cannot judge {call.action} on {call.resource}: {unsupported}"
        self._write_record(line | {"allowed": verdict is Verdict.ALLOWED})
        if verdict is Verdict.ALLOWED:
            return None
        return denial_message(role, call, explicit=verdict is Verdict.DENIED)

    def _policies_of(self, role: str) -> Policies:
        documents = self._policy_documents(role)
        with self._lock:
            known = self._policies.get(role)
            if known is None or known[0] != documents:
                # A new deployment may change the policies of a running stack.
                known = self._policies[role] = (dict(documents), Policies(documents))
        return known[1]

    def _write_record(self, fields: Mapping[str, Any]) -> None:
        if self._record is None:
            return
        line = json.dumps(fields)
        with self._lock:
            if line in self._recorded:
                return
            self._recorded.add(line)
            with self._record.open("a", encoding="utf-8") as file:
                file.write(line + "\n")


def _place(role: str, region: str) -> Place:
    _, partition, _, _, account, _ = role.split(":", 5)
    return Place(region, account, partition)
