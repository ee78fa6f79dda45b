"""The lists to choose from that a connector can be asked for, and what each question is about."""

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from aws.caller import Caller
from delegates.balancers import balancers_seen_by, listeners_seen_by, rules_seen_by
from delegates.models import Inquiry
from web.problems import BadInput

Seen = list[dict[str, Any]]
_KINDS = Inquiry.Kind
QUESTIONS: Mapping[str, Callable[[Caller, str], list[Any]]] = {
    _KINDS.BALANCERS: balancers_seen_by,
    _KINDS.LISTENERS: listeners_seen_by,
    _KINDS.RULES: rules_seen_by,
}
# What each question is about, as AWS writes its ARN: part of a call that is made with credentials.
_SUBJECTS = {
    _KINDS.LISTENERS: ("load_balancer", "loadbalancer"),
    _KINDS.RULES: ("listener", "listener"),
}


def seen(kind: str, caller: Caller, subject: str) -> Seen:
    """What a caller sees, as JSON. Raises `AwsError`."""
    return [asdict(one) for one in QUESTIONS[kind](caller, subject)]


def checked_subject(kind: str, subject: str) -> str:
    """Give back the ARN that a question is about. Raises `BadInput` for anything else."""
    if kind not in _SUBJECTS:
        return ""
    name, word = _SUBJECTS[Inquiry.Kind(kind)]
    pattern = rf"arn:aws[a-z-]*:elasticloadbalancing:[a-z0-9-]+:\d{{12}}:{word}/[A-Za-z0-9/_-]{{1,300}}"
    if re.fullmatch(pattern, subject):
        return subject
    message = f"is not the ARN of a {name.replace('_', ' ')}" if subject else "is missing"
    raise BadInput("Name what to look at by its ARN.", errors=[{"path": name, "message": message}])
