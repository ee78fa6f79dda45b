"""Delegate configurations with their use and runs, and the environments they may name."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from django.db.models import Count, QuerySet

from delegates.models import ConfigurationRun, Delegate, DelegateConfiguration
from rbac.models import Scope
from rbac.policy import Principal, filter_visible

MAX_RUNS = 50
MAX_DELEGATE_CHOICES = 200


def list_configurations_with_use() -> QuerySet[DelegateConfiguration]:
    """Return the configurations, each with `delegate_count`."""
    return DelegateConfiguration.objects.select_related("scope").annotate(
        delegate_count=Count("delegates", distinct=True)
    )


def list_configuration_runs(
    configuration: DelegateConfiguration, reader: Principal
) -> list[ConfigurationRun]:
    """Return the newest runs of a script, on instances of delegates visible to the user."""
    visible = filter_visible(reader, "core_delegate_view", Delegate.objects.all())
    runs = configuration.runs.filter(instance__delegate__in=visible).select_related("instance__delegate")
    return list(runs.order_by("-started_at", "-pk")[:MAX_RUNS])


def list_assignable_delegates(configuration: DelegateConfiguration, giver: Principal) -> QuerySet[Delegate]:
    """Return the delegates at or below the scope of a configuration that a user may edit."""
    below = Delegate.objects.filter(is_built_in=False).select_related("scope", "configuration")
    path = configuration.scope.path
    reached = below.filter(scope__path=path) | below.filter(scope__path__startswith=f"{path}/")
    return filter_visible(giver, "core_delegate_edit", reached).order_by("scope__path", "name")


@dataclass(frozen=True)
class DelegateEnvironment:
    """Environment in a configuration: its scope's path and its identifier, with a slash."""

    path: str
    name: str


# Find the environments at or below a scope that the user may view.
EnvironmentFinder = Callable[[Scope, Principal], Iterable[DelegateEnvironment]]
_finders: list[EnvironmentFinder] = []


def register_environment_finder(finder: EnvironmentFinder) -> EnvironmentFinder:
    """Enter a function that finds environments."""
    _finders.append(finder)
    return finder


def list_delegate_environments(scope: Scope, principal: Principal) -> list[DelegateEnvironment]:
    """Return the visible environments at or below a scope, by path."""
    environments = (environment for finder in _finders for environment in finder(scope, principal))
    return sorted(environments, key=lambda environment: environment.path)
