"""Tokens with how much hangs on each."""

from dataclasses import dataclass

from django.db.models import Count, Q, QuerySet
from django.utils import timezone

from delegates.models import Delegate, DelegateInstance, DelegateToken
from rbac.models import Scope
from rbac.policy import Principal, visible_to

WITH_SESSION = Q(instances__session_hash__gt="") & ~Q(instances__status=DelegateInstance.Status.GONE)


@dataclass(frozen=True)
class Losing:
    """Who loses a session with a token: delegates with their instances by name, and how many are hidden."""

    delegates: list[tuple[Delegate, list[DelegateInstance]]]
    hidden: int

    def __bool__(self) -> bool:
        return bool(self.delegates or self.hidden)


def tokens_with_use() -> QuerySet[DelegateToken]:
    """Tokens without their values, each with `delegate_count` and `instance_count` of its open sessions."""
    tokens = DelegateToken.objects.defer("value").select_related("scope", "created_by", "revoked_by")
    return tokens.annotate(
        delegate_count=Count("instances__delegate", filter=WITH_SESSION, distinct=True),
        instance_count=Count("instances", filter=WITH_SESSION, distinct=True),
    )


def usable_tokens(principal: Principal, scope: Scope | None = None) -> QuerySet[DelegateToken]:
    """Tokens that agents can register with and somebody may put into a spec; of one scope, or of all."""
    current = Q(expires_at__isnull=True) | Q(expires_at__gt=timezone.now())
    tokens = DelegateToken.objects.defer("value").select_related("scope")
    active = tokens.filter(current, status=DelegateToken.Status.ACTIVE)
    found = visible_to(principal, "core_delegate_edit", active).order_by("scope__path", "name")
    return found if scope is None else found.filter(scope=scope)


def losing_with(token: DelegateToken, reader: Principal) -> Losing:
    """Whose sessions end when `token` is revoked, by name as far as `reader` may see them."""
    here = DelegateInstance.objects.filter(token=token).exclude(status=DelegateInstance.Status.GONE)
    with_session = here.exclude(session_hash="")
    visible = visible_to(reader, "core_delegate_view", with_session)
    grouped: dict[Delegate, list[DelegateInstance]] = {}
    for instance in visible.select_related("delegate").order_by("delegate__name", "hostname", "pk"):
        grouped.setdefault(instance.delegate, []).append(instance)
    shown = sum(len(instances) for instances in grouped.values())
    return Losing(list(grouped.items()), with_session.count() - shown)
