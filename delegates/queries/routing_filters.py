"""Routing rules in SQL: delegates that may get a task, now or once they have capacity."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from django.conf import settings
from django.db.models import Exists, OuterRef, Q, QuerySet, TextField
from django.db.models.functions import Cast

from delegates.connectivity import build_live_filter
from delegates.models import BlocklistEntry, Delegate, DelegateConfiguration, DelegateInstance
from delegates.routing.rules import RoutingRequest, RoutingRule

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


def build_failures(
    request: RoutingRequest, now: datetime, *, tagged: Q, refused: Iterable[int], full: Iterable[int]
) -> dict[RoutingRule, Q]:
    """Return for each rule the condition of the delegates in reach that fail it, equal to `evaluate_rules`.

    `tagged` is the condition of those with the task's tags, `refused` are the keys of those that could not
    begin the task, `full` of those whose capacity is in use. Rules that all delegates pass are left out.
    """
    live = select_live_instances(now)
    is_ready = Q(admission=Delegate.Admission.ENABLED, draining=False)
    failures = {
        RoutingRule.CONNECTED: ~Q(Exists(live)),
        RoutingRule.ADMITTED: ~is_ready,
        RoutingRule.TRIED: Q(pk__in=list(refused)),
        RoutingRule.CAPACITY: Q(~Exists(live.filter(capacity__gt=0))) | Q(pk__in=list(full)),
    }
    if request.aws_account:
        failures[RoutingRule.AWS_ACCOUNT] = ~Q(aws_account__in=("", request.aws_account))
    if request.selectors:
        failures[RoutingRule.SELECTORS] = ~tagged
    if request.criterion:
        failures[RoutingRule.BLOCKLIST] = Q(Exists(_select_blocks(request.criterion, now)))
    if request.excluded is not None:
        failures[RoutingRule.EXCLUDED] = Q(pk=request.excluded)
    return failures | _build_configuration_failures(request) | _build_script_failures(request, live)


def _build_configuration_failures(request: RoutingRequest) -> dict[RoutingRule, Q]:
    rows = list(DelegateConfiguration.objects.values_list("pk", "environments", "task_kinds"))
    unfit_environment = [pk for pk, limits, _ in rows if not _includes(limits, request.environment)]
    unfit_kind = [pk for pk, _, limits in rows if not _includes(limits, request.task_kind)]
    return {
        RoutingRule.ENVIRONMENT: Q(configuration__in=unfit_environment),
        RoutingRule.TASK_KIND: Q(configuration__in=unfit_kind),
    }


def _build_script_failures(request: RoutingRequest, live: QuerySet[DelegateInstance]) -> dict[RoutingRule, Q]:
    failures: dict[RoutingRule, Q] = {}
    if request.is_script and not settings.EMBEDDED:
        failures[RoutingRule.SCRIPTS] = Q(is_built_in=True)
    if request.needs_isolation:
        fit = ~Q(isolation__in=(Isolation.NONE, Isolation.UNKNOWN))
        fit |= Q(script_scope__in=("", request.scope))
        failures[RoutingRule.ISOLATION] = Q(Exists(live), ~Exists(live.filter(fit)), shares_scripts=False)
    if request.features:
        known = live.annotate(feature_list=Cast("features", TextField()))
        lacks = Exists(known.filter(_lacks_any(request.features)))
        failures[RoutingRule.RELEASE] = Q(lacks, is_built_in=False)
    return failures


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
