"""What the built-in delegate may not do: act with this Slipway's own credentials where they are not lent."""

from django.conf import settings

from aws.errors import NotSent
from connectors.aws_accounts import read_spec
from connectors.models import Connector
from delegates.models import DelegateTask
from delegates.reachability import note_incapable

_NOT_LENT = "This Slipway does not lend its own credentials."


def refuse_to_lend(task: DelegateTask, connector: Connector) -> None:
    """Let the task go to another delegate if the built-in one took it and lacks credentials that it may use.

    Raises `NotSent`; the built-in delegate gets no such task for five minutes.
    """
    delegate = task.instance.delegate if task.instance else None
    if delegate is None or not delegate.is_built_in or connector.kind != Connector.Kind.AWS:
        return
    if read_spec(connector.spec).needs_secret or settings.ALLOW_MANAGER_CREDENTIALS:
        return
    note_incapable(delegate, task.criterion, _NOT_LENT)
    raise NotSent("NotLent", _NOT_LENT)
