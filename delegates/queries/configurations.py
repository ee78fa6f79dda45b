"""Configurations with the delegates that have them, and what became of their scripts."""

from django.db.models import Count, QuerySet

from delegates.models import ConfigurationRun, Delegate, DelegateConfiguration
from rbac.policy import Principal, visible_to

SHOWN_RUNS = 50
MOST_OFFERED = 200


def configurations_with_use() -> QuerySet[DelegateConfiguration]:
    """Configurations, each with `delegate_count`."""
    return DelegateConfiguration.objects.select_related("scope").annotate(
        delegate_count=Count("delegates", distinct=True)
    )


def runs_of(configuration: DelegateConfiguration, reader: Principal) -> list[ConfigurationRun]:
    """The newest runs of a script, on instances of delegates that somebody may see."""
    seen = visible_to(reader, "core_delegate_view", Delegate.objects.all())
    runs = configuration.runs.filter(instance__delegate__in=seen).select_related("instance__delegate")
    return list(runs.order_by("-started_at", "-pk")[:SHOWN_RUNS])


def delegates_to_give(configuration: DelegateConfiguration, giver: Principal) -> QuerySet[Delegate]:
    """The delegates that somebody may give a configuration to: those at its scope and below."""
    below = Delegate.objects.filter(is_built_in=False).select_related("scope", "configuration")
    path = configuration.scope.path
    reached = below.filter(scope__path=path) | below.filter(scope__path__startswith=f"{path}/")
    return visible_to(giver, "core_delegate_edit", reached).order_by("scope__path", "name")
