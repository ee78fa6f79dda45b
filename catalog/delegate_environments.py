"""Tells delegates which environments their configurations can be for."""

from collections.abc import Iterable

from catalog.models import Environment
from delegates.known_environments import KnownEnvironment, environments
from rbac.models import Scope
from rbac.policy import Principal, at_or_below, visible_to


@environments
def all_environments(scope: Scope, principal: Principal) -> Iterable[KnownEnvironment]:
    """The environments at or below a scope, as tasks name them too."""
    rows = Environment.objects.filter(at_or_below(scope)).select_related("scope")
    for one in visible_to(principal, "core_environment_view", rows):
        yield KnownEnvironment(f"{one.scope.path}/{one.identifier}", one.name)
