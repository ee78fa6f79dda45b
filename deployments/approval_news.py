"""Tells whoever counts approvals that some have changed; which ones wait for whom is read anew."""

from typing import Final
from uuid import UUID

from django.db import transaction

from web.news import changed
from web.telling import tell_group

GROUP: Final = "approvals"


def approvals_changed(*approvals: UUID) -> None:
    """After the commit under way, have those who are asked counted again, and the pages of these look."""
    changed(GROUP, *approvals)
    transaction.on_commit(lambda: tell_group(GROUP, {"type": "approvals.changed"}))
