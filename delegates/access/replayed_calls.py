"""Calls that are repeated from stored answers up to the first one without an answer."""

import json
from collections.abc import Mapping
from typing import Any

from aws.errors import AwsError, parse_error_record
from connectors.models import Connector
from connectors.secret_managers.vault_client import VAULT_SERVICE
from connectors.specs.vault import parse_vault_spec
from delegates.models import DelegateTask
from delegates.task_owners import TaskPayload


class NextCall(Exception):
    """Error raised by the first call without an answer; the parameters may have secrets in them."""

    def __init__(self, service: str, operation: str, params: Mapping[str, Any]) -> None:
        super().__init__(service, operation)
        self.service, self.operation, self.params = service, operation, params


class ReplayedCalls:
    """Caller that returns stored answers in their order, and raises `NextCall` after the last one.

    `answers` is a JSON list of {"result", "error"}. Requests need not be stored: a replay builds them again.
    """

    def __init__(self, answers: str) -> None:
        self._answers: list[dict[str, Any]] = json.loads(answers)

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the next stored answer. Raises its error, or `NextCall`."""
        if not self._answers:
            raise NextCall(service, operation, params)
        answer = self._answers.pop(0)
        if answer["error"] is not None:
            raise parse_error_record(answer["error"])
        return dict(answer["result"])


def append_answer(answers: str, *, result: Mapping[str, Any] | None, error: AwsError | None) -> str:
    """Return the stored answers with one more."""
    answer = {"result": dict(result or {}), "error": error.to_record() if error else None}
    return json.dumps([*json.loads(answers), answer])


def get_call_task_kind(service: str) -> DelegateTask.Kind:
    """Return the kind of the task that makes a call of a secret manager."""
    return DelegateTask.Kind.HTTP if service == VAULT_SERVICE else DelegateTask.Kind.AWS


def build_vault_payload(call: NextCall) -> TaskPayload:
    """Return a request to Vault in the format of the HTTP executor."""
    request = {name: call.params[name] for name in ("url", "headers", "body")}
    return TaskPayload({"method": call.operation, **request}, mask=tuple(call.params["mask"]))


def get_vault_criterion(connector: Connector) -> str:
    """Return the URL that a delegate must reach for a Vault connector (R035)."""
    return parse_vault_spec(connector.spec).url
