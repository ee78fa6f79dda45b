"""Routing rules in SQL: delegates that may get a task, now or once they have capacity."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from django.conf import settings
from django.db.models import Exists, OuterRef, Q, QuerySet, TextField
from django.db.models.functions import Cast

from delegates.connectivity import build_live_filter
from delegates.models import BlocklistEntry, Delegate, DelegateConfiguration, DelegateInstance
from delegates.routing.rules import RoutingRequest

Isolation = DelegateInstance.Isolation


def filter_fit(
    request: RoutingRequest, scopes: Sequence[int], now: datetime, *, accepts_tasks: bool = False
) -> QuerySet[Delegate]:
    """Return the delegates of these scopes that pass all rules but capacity and earlier attempts.

    With `accepts_tasks` they have an instance with a capacity. `evaluate_rules` judges them once more.
    """
    live = select_live_instances(now)
    connected = live.filter(capacity__gt=0) if accepts_tasks else live
    fit = filter_registered(scopes).filter(
        Exists(connected), admission=Delegate.Admission.ENABLED, draining=False
    )
    if request.aws_account:
        fit = fit.filter(aws_account__in=("", request.aws_account))
    if unfit := _list_unfit_configurations(request):
        fit = fit.exclude(configuration__in=unfit)
    if request.criterion:
        fit = fit.exclude(Exists(_select_blocks(request.criterion, now)))
    if request.is_script:
        fit = filter_script_runners(fit)
    if request.needs_isolation:
        isolated = ~Q(isolation__in=(Isolation.NONE, Isolation.UNKNOWN))
        fit = fit.filter(
            Q(shares_scripts=True) | Exists(live.filter(isolated | Q(script_scope__in=("", request.scope))))
        )
    if request.features:
        known = live.annotate(feature_list=Cast("features", TextField()))
        fit = fit.filter(Q(is_built_in=True) | ~Exists(known.filter(_lacks_any(request.features))))
    return fit if request.excluded is None else fit.exclude(pk=request.excluded)


def filter_registered(scopes: Sequence[int]) -> QuerySet[Delegate]:
    """Return the delegates of these scopes, connected or not."""
    return Delegate.objects.filter(scope__in=scopes, archived_at=None)


def filter_script_runners(delegates: QuerySet[Delegate]) -> QuerySet[Delegate]:
    """Return the delegates that run scripts: not the manager, except in the embedded mode."""
    return delegates if settings.EMBEDDED else delegates.filter(is_built_in=False)


def select_live_instances(now: datetime) -> QuerySet[DelegateInstance]:
    """Return the connected instances of the delegate of an outer query."""
    return DelegateInstance.objects.filter(build_live_filter(now), delegate=OuterRef("pk"))


def _list_unfit_configurations(request: RoutingRequest) -> list[int]:
    """Return the configurations that are not for the environment, or the kind, of a task."""
    if not request.environment and not request.task_kind:
        return []
    rows = DelegateConfiguration.objects.values_list("pk", "environments", "task_kinds")
    return [
        pk
        for pk, environments, task_kinds in rows
        if not _includes(environments, request.environment) or not _includes(task_kinds, request.task_kind)
    ]


def _includes(limits: Sequence[str], name: str) -> bool:
    return not name or not limits or name in limits


def _select_blocks(criterion: str, now: datetime) -> QuerySet[BlocklistEntry]:
    return BlocklistEntry.objects.filter(delegate=OuterRef("pk"), criterion=criterion, expires_at__gt=now)


def _lacks_any(features: Iterable[str]) -> Q:
    """Return the condition of instances that lack a feature; its names have no capitals or quotes."""
    lacks = Q()
    for feature in features:
        lacks |= ~Q(feature_list__contains=f'"{feature}"')
    return lacks
