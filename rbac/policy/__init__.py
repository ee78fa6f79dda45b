"""Answers who may do what: every page, route, socket and admin form asks here and nowhere else."""

from rbac.policy.explaining import Verdict, explain
from rbac.policy.grants import Grants, Place, places_of, scope_lines
from rbac.policy.principals import Principal, key_allows
from rbac.policy.questions import (
    Forbidden,
    NotVisible,
    can,
    can_anywhere,
    require,
    visible_below,
    visible_to,
)
from rbac.policy.remembering import remembered_rights
from rbac.policy.rights import permissions_anywhere, permissions_at, permissions_over
from rbac.policy.things import Scoped
from rbac.policy.tree import at_or_below, live
from rbac.policy.where import scopes_of_member, scopes_where

__all__ = [
    "Forbidden",
    "Grants",
    "NotVisible",
    "Place",
    "Principal",
    "Scoped",
    "Verdict",
    "at_or_below",
    "can",
    "can_anywhere",
    "explain",
    "key_allows",
    "live",
    "permissions_anywhere",
    "permissions_at",
    "permissions_over",
    "places_of",
    "remembered_rights",
    "require",
    "scope_lines",
    "scopes_of_member",
    "scopes_where",
    "visible_below",
    "visible_to",
]
