"""Connectivity checks that people start: can this delegate reach an address."""

from datetime import timedelta

from django.db import transaction

from delegates.candidates import own_tag
from delegates.models import Delegate, DelegateTask
from delegates.operations.tasks import submit_task
from guards.addresses import PRIVATE_TOO
from guards.limits import CHECKED_URL_CHARACTERS
from guards.places import url_problem
from rbac.audit import record
from rbac.policy import Principal, require
from web.clock import database_now
from web.problems import BadInput

# Somebody looks on: what has not begun by then will not be waited for.
PATIENCE = timedelta(minutes=1)
TIMEOUT_SECONDS = 30


def start_check(*, actor: Principal, delegate: Delegate, url: str) -> DelegateTask:
    """Ask one delegate whether it reaches an address; the task that comes back tells. Raises `BadInput`.

    What comes of it changes neither list: somebody may try again at once.
    """
    require(actor, "core_delegate_edit", delegate)
    url = url.strip()
    if fault := _fault(url):
        raise BadInput(f"The address {fault}.", errors=[{"path": "url", "message": fault}])
    with transaction.atomic():
        task = submit_task(
            scope=delegate.scope,
            kind=DelegateTask.Kind.CHECK,
            title=f"Can {delegate.name} reach {url}?",
            payload={"url": url},
            selectors=[own_tag(delegate.pk)],
            timeout_seconds=TIMEOUT_SECONDS,
            deadline=database_now() + PATIENCE,
        )
        record(actor=actor, action="delegate.check", thing=delegate, after={"url": url})
    return task


def _fault(url: str) -> str:
    if len(url) > CHECKED_URL_CHARACTERS:
        return f"must have at most {CHECKED_URL_CHARACTERS}"
    if not url.isascii() or not url.isprintable():
        return "may not hold other characters than those of ASCII"
    # Whether the name leads where a delegate may go is for the delegate to see, which resolves it.
    why = url_problem(url, PRIVATE_TOO)
    return f"cannot be asked: {why}" if why else ""
