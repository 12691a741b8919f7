"""Map Lambda's REST requests and STS's form-encoded requests to (action, resource) pairs."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, unquote

from localaws.iam.requests import Call, Place, Request, UnknownCall

_FUNCTION = re.compile(r"/\d{4}-\d{2}-\d{2}/functions(?:/(?P<name>[^/]+)(?P<rest>/.*)?)?/?")
_ACCOUNT_SETTINGS = re.compile(r"/\d{4}-\d{2}-\d{2}/account-settings/?")
# Method and path after the function's name, to action.
_FUNCTION_ACTIONS = {
    ("DELETE", ""): "DeleteFunction",
    ("GET", ""): "GetFunction",
    ("GET", "/configuration"): "GetFunctionConfiguration",
    ("POST", "/invocations"): "InvokeFunction",
    ("PUT", "/code"): "UpdateFunctionCode",
    ("PUT", "/configuration"): "UpdateFunctionConfiguration",
}
# Actions that need no permission, by STS's API Reference.
_UNRESTRICTED = {"GetCallerIdentity", "GetSessionToken"}
_ASSUME_ROLE_ACTIONS = {"AssumeRole", "AssumeRoleWithSAML", "AssumeRoleWithWebIdentity"}


def lambda_actions(request: Request, place: Place) -> list[Call]:
    """Return the permission that Lambda checks. Raises UnknownCall for an unsupported path."""
    if request.method == "GET" and _ACCOUNT_SETTINGS.fullmatch(request.path):
        return [Call("lambda:GetAccountSettings", "*")]
    match = _FUNCTION.fullmatch(request.path)
    if match is None:
        raise UnknownCall(f"lambda: {request}")
    if match["name"] is None:
        if request.method == "GET":
            return [Call("lambda:ListFunctions", "*")]
        if request.method == "POST":
            name = request.json().get("FunctionName")
            if isinstance(name, str) and name:
                return [Call("lambda:CreateFunction", _function_arn(name, "", place))]
        raise UnknownCall(f"lambda: {request}")
    action = _FUNCTION_ACTIONS.get((request.method, (match["rest"] or "").rstrip("/")))
    if action is None:
        raise UnknownCall(f"lambda: {request}")
    qualifier = request.parameters().get("Qualifier", "")
    return [Call(f"lambda:{action}", _function_arn(unquote(match["name"]), qualifier, place))]


def _function_arn(name: str, qualifier: str, place: Place) -> str:
    """Return a function's ARN from any of the five forms of name that Lambda accepts."""
    parts = name.split(":")
    if parts[0] == "arn" and len(parts) in {7, 8} and parts[2] == "lambda":
        resource = ":".join(parts[:7])
        qualifier = qualifier or ":".join(parts[7:])
    elif len(parts) in {3, 4} and parts[1] == "function":
        owner = Place(place.region, parts[0], place.partition)
        resource = owner.arn("lambda", f"function:{parts[2]}")
        qualifier = qualifier or ":".join(parts[3:])
    elif len(parts) <= 2:
        resource = place.arn("lambda", f"function:{parts[0]}")
        qualifier = qualifier or ":".join(parts[1:])
    else:
        raise UnknownCall(f"lambda: {name!r} is not a function's name or ARN")
    return f"{resource}:{qualifier}" if qualifier else resource


def sts_actions(request: Request) -> list[Call]:
    """Return the permission that STS checks, if any. Raises UnknownCall if unsupported.

    The role's trust policy, which AWS also checks, is not evaluated here.
    """
    fields = parse_qs(request.body().decode(errors="replace") or request.query)
    action = fields.get("Action", [""])[0]
    if action in _UNRESTRICTED:
        return []
    role = fields.get("RoleArn", [""])[0]
    if action in _ASSUME_ROLE_ACTIONS and role:
        return [Call(f"sts:{action}", role)]
    raise UnknownCall(f"sts: {request}: {action or 'Action is missing'}")
