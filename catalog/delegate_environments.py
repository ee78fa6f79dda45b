"""Environments that a delegate configuration may name."""

from collections.abc import Iterable

from catalog.models import Environment
from delegates.queries.configurations import DelegateEnvironment, register_environment_finder
from rbac.models import Scope
from rbac.policy import Principal, build_below_filter, filter_visible


@register_environment_finder
def list_environments(scope: Scope, principal: Principal) -> Iterable[DelegateEnvironment]:
    """Return the environments at or below a scope, with the names that delegate tasks use."""
    rows = Environment.objects.filter(build_below_filter(scope)).select_related("scope")
    for environment in filter_visible(principal, "core_environment_view", rows):
        yield DelegateEnvironment(environment.path, environment.name)
