"""Writes down what happened to delegates, for the people who look after them."""

from datetime import datetime

from delegates.models import Delegate, DelegateEvent, DelegateInstance
from rbac.models import Scope


def note(
    instance: DelegateInstance, kind: DelegateEvent.Kind, text: str, *, at: datetime, address: str = ""
) -> DelegateEvent:
    """Something that happened to one instance; its delegate must come with the row."""
    return DelegateEvent.objects.create(
        scope_id=instance.delegate.scope_id,
        delegate=instance.delegate,
        instance=instance,
        name=instance.delegate.name,
        at=at,
        kind=kind,
        text=text,
        address=address,
    )


def note_refusal(*, scope: Scope, name: str, text: str, at: datetime, address: str) -> DelegateEvent:
    """A registration that came to nothing, as far as it is known whose it was."""
    return DelegateEvent.objects.create(
        scope=scope,
        delegate=Delegate.objects.filter(scope=scope, name=name).first(),
        name=name,
        at=at,
        kind=DelegateEvent.Kind.REFUSED,
        text=text,
        address=address,
    )


def was_refused(scope: Scope, name: str, text: str, *, since: datetime) -> bool:
    """Whether the same refusal is written down already."""
    refusals = DelegateEvent.objects.filter(
        kind=DelegateEvent.Kind.REFUSED, scope=scope, name=name, text=text
    )
    return refusals.filter(at__gte=since).exists()


def called(instance: DelegateInstance) -> str:
    """How events call an instance: by its host, or what stands for one."""
    return instance.hostname or instance.key
