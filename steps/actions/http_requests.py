"""Action that sends an HTTP request and checks its response."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from steps.actions.base import Action, ActionFailed, action
from steps.actions.confirmations import CallRecord, Confirmation, Indeterminate
from steps.actions.context import StepContext
from steps.actions.non_aws_calls import OutboundRequest, OutboundResponse
from steps.conditions import BadConditionError, UnclearConditionError, parse_condition
from steps.expressions import (
    BadExpressionError,
    format_value,
    parse_secret_reference,
    render_expressions,
    resolve_expressions,
)

# As much of an answer as later steps and the outputs tab keep.
STORED_CHARACTERS = 16_000


@action
@dataclass(frozen=True)
class SendRequest(Action):
    """Send a request; `headers` and `outputs` are [name, text], where texts may hold expressions."""

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
        reply = context.work.send_request(request)
        context.log(f"Response: HTTP status {reply.status}")
        context.set_outputs(
            httpUrl=request.url,
            httpMethod=self.method,
            httpResponseCode=reply.status,
            httpResponseBody=reply.body[:STORED_CHARACTERS],
        )
        self._check_reply(reply)
        for name, text in self.outputs:
            context.set_output(name, self._output(context, name, text, reply))

    def _check_reply(self, reply: OutboundResponse) -> None:
        if not self.assertion:
            if reply.status >= 400:
                raise ActionFailed(
                    "HTTP_STATUS",
                    f"The response has HTTP status {reply.status}. Without an assertion, status 400 or "
                    f"higher is a failure.",
                )
            return
        try:
            holds = parse_condition(self.assertion).holds(build_response_values(reply))
        except (BadConditionError, UnclearConditionError) as unclear:
            raise ActionFailed(
                "ASSERTION_FAILED", f"The assertion cannot be evaluated: {unclear}"
            ) from unclear
        if not holds:
            raise ActionFailed(
                "ASSERTION_FAILED",
                f"The assertion {self.assertion} is false for the response with HTTP status {reply.status}.",
            )

    def _output(self, context: StepContext, name: str, text: str, reply: OutboundResponse) -> str:
        own = build_response_values(reply)
        try:
            return (
                format_value(resolve_expressions(text, own))
                if _uses_response_values(text, own)
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


def build_response_values(reply: OutboundResponse) -> Mapping[str, Any]:
    """What an assertion and outputs may name; `json` is the body where that is a JSON object."""
    try:
        body = json.loads(reply.body)
    except (ValueError, RecursionError):
        body = None
    return {
        "httpResponseCode": reply.status,
        "httpResponseBody": reply.body,
        "json": body if isinstance(body, Mapping) else {},
    }


def _uses_response_values(text: str, own: Mapping[str, Any]) -> bool:
    return any(f"<+{name}" in text for name in own)
