"""HTTP step: sends a request and checks its response."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from connectors.secret_expressions import find_secret_references
from guards.address_policy import PRIVATE_ALLOWED
from guards.urls import describe_url_problem
from steps.actions.http_requests import SendRequest
from steps.conditions import BadConditionError, parse_condition
from steps.expressions import format_value, has_expression
from steps.kinds.registry import BadStepError, Plan, SpecColumn, describe_field, step, unit
from steps.variables import VARIABLE_NAME_PATTERN

HTTP_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
SHOWN_CHARACTERS = 60
_HEADER_PATTERN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")


@dataclass(frozen=True)
class HttpSpec:
    """Settings of a request and an assertion about the response: `<+httpResponseCode> == 200`.

    Assertion and outputs may use `<+httpResponseCode>`, `<+httpResponseBody>`, and the values of a JSON
    object as `<+json.path.to.value>`.
    """

    url: str = field(
        metadata=describe_field("Such as https://example.com/health; expressions may stand in it.")
    )
    method: str = field(default="GET", metadata=describe_field("", *HTTP_METHODS))
    """The HTTP method."""
    headers: list[dict[str, Any]] = field(
        default_factory=list,
        metadata=describe_field(
            'A secret is written <+secrets.getValue("account.token")>.',
            columns=(SpecColumn("key", is_needed=True), SpecColumn("value")),
        ),
    )
    requestBody: str = field(default="", metadata=describe_field(is_multiline=True))
    """The body of the request."""
    assertion: str = field(
        default="",
        metadata=describe_field(
            "What must be true of the answer, such as <+httpResponseCode> == 200 && <+json.state> == "
            '"green". Without one, anything from 400 on is a failure.',
            is_multiline=True,
        ),
    )
    inputVariables: list[dict[str, Any]] = field(
        default_factory=list,
        metadata=describe_field("Not needed: write expressions where they belong.", is_rare=True),
    )
    outputVariables: list[dict[str, Any]] = field(
        default_factory=list,
        metadata=describe_field(
            "What later steps can name, such as <+json.build.number> of a JSON answer.",
            columns=(SpecColumn("name", is_needed=True), SpecColumn("value")),
        ),
    )

    def __post_init__(self) -> None:
        """Raise `BadStepError` for an invalid spec."""
        if problem := next(self._list_problems(), ""):
            raise BadStepError(f"Http: {problem}")

    def _list_problems(self) -> Iterator[str]:
        if not has_expression(self.url) and (problem := describe_url_problem(self.url, PRIVATE_ALLOWED)):
            yield f"url: {problem}"
        if self.method.upper() not in HTTP_METHODS:
            yield f"method is one of {', '.join(HTTP_METHODS)}, not {self.method[:SHOWN_CHARACTERS]!r}"
        yield from (problem for entry in self.headers if (problem := _describe_header_problem(entry)))
        if self.inputVariables:
            yield "inputVariables are not needed: write the expressions into url, headers or requestBody"
        if any(
            not isinstance(entry, Mapping) or not VARIABLE_NAME_PATTERN.match(str(entry.get("name", "")))
            for entry in self.outputVariables
        ):
            yield "each output variable has a name of letters, digits and _, and a value"
        yield from _list_assertion_problems(self.assertion)

    @property
    def secret_references(self) -> tuple[str, ...]:
        """Return the secrets in the request."""
        return tuple(
            dict.fromkeys(find_secret_references(*(str(header.get("value", "")) for header in self.headers)))
        )


def _describe_header_problem(header: Any) -> str:
    if not isinstance(header, Mapping) or not set(header) <= {"key", "value"} or not header.get("key"):
        return "each header has key and value"
    key = str(header["key"])
    if not _HEADER_PATTERN.fullmatch(key):
        return f"{key[:SHOWN_CHARACTERS]!r} is not the name of a header"
    return ""


def _list_assertion_problems(text: str) -> Iterator[str]:
    try:
        if text:
            parse_condition(text)
    except BadConditionError as bad:
        yield f"assertion: {bad}"


_OUTPUTS = {
    "httpUrl": "The address that was asked.",
    "httpMethod": "The method of the request.",
    "httpResponseCode": "The status of the answer, a number.",
    "httpResponseBody": "The text of the answer.",
}
_OWN_EXPRESSIONS = {
    "httpResponseCode": _OUTPUTS["httpResponseCode"],
    "httpResponseBody": _OUTPUTS["httpResponseBody"],
    "json": "The answer, if it is a JSON object: write <+json.path.to.value>.",
}


@step(
    "Http",
    title="HTTP request",
    spec=HttpSpec,
    outputs=_OUTPUTS,
    own_expressions=_OWN_EXPRESSIONS,
    timeout_minutes=5,
    scripts=("url", "headers", "requestBody", "assertion", "outputVariables"),
    secrets=("headers.*.value",),
    runs_on_delegates=True,
    deploys=False,
    starter={"url": "https://example.com/", "method": "GET", "assertion": "<+httpResponseCode> == 200"},
)
def http(spec: HttpSpec) -> Plan:
    """Send the request once. A request without a response is repeated only if it reads."""
    yield unit(
        "Request",
        SendRequest(
            spec.url,
            spec.method.upper(),
            [[str(entry["key"]), format_value(entry.get("value", ""))] for entry in spec.headers],
            spec.requestBody,
            spec.assertion,
            [[str(entry["name"]), format_value(entry.get("value", ""))] for entry in spec.outputVariables],
        ),
    )
