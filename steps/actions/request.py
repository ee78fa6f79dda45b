"""The action that sends an HTTP request and judges the answer."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from steps.actions.base import Action, ActionFailed, CallRecord, NobodyKnows, Rollout, Verdict, action
from steps.actions.work import Reply, Request
from steps.conditions import BadConditionError, UnclearConditionError, read_condition
from steps.expressions import BadExpressionError, resolve
from steps.variables import as_text, filled_in, secret_in

# As much of an answer as later steps and the outputs tab keep.
KEPT_CHARACTERS = 16_000


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

    def start(self, rollout: Rollout) -> None:
        secrets = {name: ref for name, text in self.headers if (ref := secret_in(text))}
        request = Request(
            filled_in(self.url, rollout.value_of),
            self.method,
            {name: filled_in(text, rollout.value_of) for name, text in self.headers if name not in secrets},
            secrets,
            filled_in(self.body, rollout.value_of),
        )
        rollout.log(f"Sending {self.method} {request.url}")
        reply = rollout.work.send_request(request)
        rollout.log(f"Answered with HTTP status {reply.status}")
        rollout.learn(
            httpUrl=request.url,
            httpMethod=self.method,
            httpResponseCode=reply.status,
            httpResponseBody=reply.body[:KEPT_CHARACTERS],
        )
        self._judge(reply)
        for name, text in self.outputs:
            rollout.learn_output(name, self._output(rollout, name, text, reply))

    def _judge(self, reply: Reply) -> None:
        if not self.assertion:
            if reply.status >= 400:
                raise ActionFailed(
                    "HTTP_STATUS",
                    f"The request was answered with HTTP status {reply.status}. Without an assertion "
                    "anything from 400 on is a failure.",
                )
            return
        try:
            holds = read_condition(self.assertion).holds(seen(reply))
        except (BadConditionError, UnclearConditionError) as unclear:
            raise ActionFailed("ASSERTION_FAILED", f"The assertion has no answer: {unclear}") from unclear
        if not holds:
            raise ActionFailed(
                "ASSERTION_FAILED",
                f"The assertion {self.assertion} is not true of the answer, whose HTTP status is "
                f"{reply.status}.",
            )

    def _output(self, rollout: Rollout, name: str, text: str, reply: Reply) -> str:
        own = seen(reply)
        try:
            return as_text(resolve(text, own)) if _is_own(text, own) else filled_in(text, rollout.value_of)
        except BadExpressionError as bad:
            raise ActionFailed("UNKNOWN_EXPRESSION", f"Output {name}: {bad.message}") from bad

    def adopt(self, rollout: Rollout, call: CallRecord) -> Verdict:
        return NobodyKnows(
            "NO_ANSWER",
            "The worker that sent the request was lost before it had the answer. It is not sent again: "
            "it may have arrived.",
        )


def seen(reply: Reply) -> Mapping[str, Any]:
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


def _is_own(text: str, own: Mapping[str, Any]) -> bool:
    return any(f"<+{name}" in text for name in own)
