"""What Terraform Cloud is asked outside of runs: whose a token is, and what it sees."""

import json
from collections.abc import Mapping
from typing import Any, Final

from aws.caller import Caller
from aws.errors import Undelivered
from delegates.errands import SERVICE
from delegates.terraform_cloud import ASK_TERRAFORM

# What Terraform Cloud calls the user that stands for the token of an organization.
_OF_ORGANIZATION: Final = "api-org-"
MOST_SHOWN: Final = 5


def whose_token(caller: Caller) -> str:
    """Whose the token is and which organizations it sees, in words.

    Raises `Undelivered` with the reason where it is of no use, `CallPending`.
    """
    user = _asked(caller, "account", "details").get("data") or {}
    name = str((user.get("attributes") or {}).get("username", ""))[:100]
    if name.startswith(_OF_ORGANIZATION):
        raise Undelivered("TOKEN_REFUSED", "This is an organization's token, which cannot make runs.")
    listed = _asked(caller, "organizations").get("data")
    found = [str(one.get("id", ""))[:100] for one in listed or [] if isinstance(one, Mapping)]
    if not found:
        return f"the token is {name}'s and sees no organization"
    more = f" and {len(found) - MOST_SHOWN} more" if len(found) > MOST_SHOWN else ""
    word = "organization" if len(found) == 1 else "organizations"
    return f"the token is {name}'s and sees the {word} {', '.join(found[:MOST_SHOWN])}{more}"


def _asked(caller: Caller, *path: str) -> dict[str, Any]:
    answer = caller.call(SERVICE, ASK_TERRAFORM, {"path": list(path)})
    status = int(answer.get("status", 0))
    if status in (401, 403):
        raise Undelivered("TOKEN_REFUSED", f"Terraform Cloud does not accept the token ({status}).")
    try:
        said = json.loads(str(answer.get("body", "")))
    except (ValueError, RecursionError):
        said = None
    if status != 200 or not isinstance(said, dict):
        raise Undelivered("NOT_TERRAFORM_CLOUD", f"There is no Terraform Cloud at this URL ({status}).")
    return said
