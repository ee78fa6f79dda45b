"""Tells whoever counts approvals that some have changed; which ones wait for whom is read anew."""

from typing import Final

from django.db import transaction

from deployments import log

GROUP: Final = "approvals"


def approvals_changed() -> None:
    """After the commit under way, have those who are asked counted again."""
    transaction.on_commit(lambda: log.tell_group(GROUP, {"type": "approvals.changed"}))
