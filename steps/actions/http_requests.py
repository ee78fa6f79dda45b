"""Action that sends an HTTP request and checks its response."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from connectors.secret_expressions import parse_secret_reference
from steps.actions.base import Action, ActionFailed, action
from steps.actions.confirmations import CallRecord, Confirmation, Indeterminate
from steps.actions.context import StepContext
from steps.actions.non_aws_calls import OutboundRequest, OutboundResponse
from steps.conditions import BadConditionError, UnclearConditionError, parse_condition
from steps.expressions import BadExpressionError, format_value, render_expressions, resolve_expressions

# Characters of a response that outputs keep.
STORED_CHARACTERS = 16_000


@action
@dataclass(frozen=True)
class SendRequest(Action):
    """Send a request; `headers` and `outputs` are [name, text] with expressions in the texts."""

    repeats = True

    url: str
    method: str = "GET"
    headers: list[list[str]] = field(default_factory=list)
    body: str = ""
    assertion: str = ""
    outputs: list[list[str]] = field(default_factory=list)

    @property
    def title(self) -> str:
        return f"{self.method} request"

    def start(self, context: StepContext) -> None:
        secrets = {name: ref for name, text in self.headers if (ref := parse_secret_reference(text))}
        request = OutboundRequest(
            render_expressions(self.url, context.resolve_expression),
            self.method,
            {
                name: render_expressions(text, context.resolve_expression)
                for name, text in self.headers
                if name not in secrets
            },
            secrets,
            render_expressions(self.body, context.resolve_expression),
        )
        context.log(f"Sending {self.method} {request.url}")
        response = context.work.send_request(request)
        context.log(f"Response: HTTP status {response.status}")
        context.set_outputs(
            httpUrl=request.url,
            httpMethod=self.method,
            httpResponseCode=response.status,
            httpResponseBody=response.body[:STORED_CHARACTERS],
        )
        self._check_response(response)
        for name, text in self.outputs:
            context.set_output(name, self._resolve_output(context, name, text, response))

    def _check_response(self, response: OutboundResponse) -> None:
        if not self.assertion:
            if response.status >= 400:
                raise ActionFailed(
                    "HTTP_STATUS",
                    f"The response has HTTP status {response.status}. Without an assertion, status 400 or "
                    f"higher is a failure.",
                )
            return
        try:
            holds = parse_condition(self.assertion).holds(build_response_values(response))
        except (BadConditionError, UnclearConditionError) as unclear:
            raise ActionFailed(
                "ASSERTION_FAILED", f"The assertion cannot be evaluated: {unclear}"
            ) from unclear
        if not holds:
            raise ActionFailed(
                "ASSERTION_FAILED",
                f"The assertion {self.assertion} is false for the response with HTTP status "
                f"{response.status}.",
            )

    def _resolve_output(self, context: StepContext, name: str, text: str, response: OutboundResponse) -> str:
        response_values = build_response_values(response)
        try:
            return (
                format_value(resolve_expressions(text, response_values))
                if _uses_response_values(text, response_values)
                else render_expressions(text, context.resolve_expression)
            )
        except BadExpressionError as bad:
            raise ActionFailed("UNKNOWN_EXPRESSION", f"Output {name}: {bad.message}") from bad

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        return Indeterminate(
            "NO_ANSWER",
            "The worker was lost before it received the response. The request is not sent again because it "
            "may have arrived.",
        )


def build_response_values(response: OutboundResponse) -> Mapping[str, Any]:
    """Return the values of assertions and outputs; `json` is the body if it is a JSON object."""
    try:
        body = json.loads(response.body)
    except (ValueError, RecursionError):
        body = None
    return {
        "httpResponseCode": response.status,
        "httpResponseBody": response.body,
        "json": body if isinstance(body, Mapping) else {},
    }


def _uses_response_values(text: str, response_values: Mapping[str, Any]) -> bool:
    return any(f"<+{name}" in text for name in response_values)
