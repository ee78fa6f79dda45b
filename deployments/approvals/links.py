"""Signed links of approval messages: they name an approval and its plan, and end with its deadline.

A link decides nothing: it leads through sign-in to the page of the approval, which checks permissions.
"""

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.core import signing

from deployments.models import Approval
from web.page_paths import get_page_path

_SALT: Final = "deployments.approvals.links"


class ApprovalLinkInvalid(Exception):
    """Error raised for a link that was not made here, or was changed."""


@dataclass(frozen=True)
class ApprovalLink:
    """Content of a link; `plan_number` counts the plans of the approval."""

    approval_id: uuid.UUID
    plan_number: int
    expires_at: float

    def has_expired(self, now: datetime) -> bool:
        """Return whether the deadline of the approval has passed."""
        return now.timestamp() >= self.expires_at

    def has_newer_plan(self, approval: Approval) -> bool:
        """Return whether a plan was requested after the message."""
        return approval.refreshes_requested > self.plan_number


def build_approval_link(approval: Approval) -> str:
    """Return the path of the link for a message about an approval."""
    content = [approval.pk.hex, approval.refreshes_requested, int(approval.expires_at.timestamp())]
    return get_page_path("approval-link", signing.dumps(content, salt=_SALT))


def read_approval_link(token: str) -> ApprovalLink:
    """Return the content of a link. Raises `ApprovalLinkInvalid`."""
    try:
        key, plan_number, expires_at = signing.loads(token, salt=_SALT)
        return ApprovalLink(uuid.UUID(key), int(plan_number), float(expires_at))
    except (signing.BadSignature, ValueError, TypeError) as error:
        raise ApprovalLinkInvalid("The link is not valid.") from error
