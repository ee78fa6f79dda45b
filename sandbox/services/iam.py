"""IAM policy simulation that denies the actions of injected faults."""

from collections.abc import Iterable
from uuid import uuid4
from xml.sax.saxutils import escape

from sandbox.aws_protocol import AwsHttpResponse, AwsRequest
from sandbox.faults import InjectedFault

OPERATION = "SimulatePrincipalPolicy"
_CLIENTS = {"elasticloadbalancing": "elbv2"}


def is_simulation(call: AwsRequest) -> bool:
    """Return whether the call simulates policies."""
    return (call.service, call.operation) == ("iam", OPERATION)


def simulate_policy(call: AwsRequest, faults: Iterable[InjectedFault]) -> AwsHttpResponse:
    """Return the account's current decision on each action."""
    denied = [fault for fault in faults if fault.kind == "denied" and not fault.is_spent]
    actions = [value for name, value in call.params.items() if name.startswith("ActionNames.member.")]
    members = "".join(_render_member(action, _is_denied(action, denied, call)) for action in actions)
    text = (
        f'<{OPERATION}Response xmlns="https://iam.amazonaws.com/doc/2010-05-08/"><{OPERATION}Result>'
        f"<IsTruncated>false</IsTruncated><EvaluationResults>{members}</EvaluationResults></{OPERATION}Result>"
        f"<ResponseMetadata><RequestId>{uuid4()}</RequestId></ResponseMetadata></{OPERATION}Response>"
    )
    return AwsHttpResponse(200, (("Content-Type", "text/xml"),), text.encode())


def _is_denied(action: str, denied: Iterable[InjectedFault], call: AwsRequest) -> bool:
    prefix, _, operation = action.partition(":")
    checked_call = AwsRequest(_CLIENTS.get(prefix, prefix), operation, call.region, call.access_key, "")
    return any(fault.selects(checked_call) for fault in denied)


def _render_member(action: str, is_denied: bool) -> str:
    decision = "implicitDeny" if is_denied else "allowed"
    return (
        f"<member><EvalActionName>{escape(action)}</EvalActionName>"
        f"<EvalResourceName>*</EvalResourceName><EvalDecision>{decision}</EvalDecision></member>"
    )
