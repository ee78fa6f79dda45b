"""What people are asked to approve, as actions see it, and what has become of that."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class AskedApproval:
    """What people are asked to approve; `groups` are named as a pipeline of the scope names them."""

    message: str
    groups: tuple[str, ...]
    minimum: int
    without_executor: bool
    inputs: tuple[Mapping[str, Any], ...]
    with_history: bool


@dataclass(frozen=True)
class ApprovalState:
    """What has become of it: WAITING, APPROVED, REJECTED or EXPIRED."""

    verdict: str
    approvers: tuple[str, ...] = ()
    """The names of those whose approval counts."""
    inputs: Mapping[str, str] = field(default_factory=dict)
    by: str = ""
    """Who rejected it."""
    comment: str = ""
