"""Active freeze windows of environments."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from operator import or_

from django.db.models import Q, QuerySet

from catalog.models import Environment
from deployments.freezes.schedule import FreezePeriod, get_period_at, matches_environment
from deployments.models import FreezeWindow
from rbac.models import Scope
from rbac.policy import build_below_filter


@dataclass(frozen=True)
class EnvironmentFreeze:
    """The window that blocks deployments to an environment now; a partial one blocks some services only."""

    window: FreezeWindow
    period: FreezePeriod

    @property
    def is_partial(self) -> bool:
        return bool(self.window.services)


@dataclass(frozen=True)
class EnvironmentFreezes:
    """Active windows that block runs in a scope or below it, complete ones first, then by their end.

    Environments of scopes above are frozen by the windows of the scope, too: these block its runs.
    """

    scope: Scope
    freezes: Sequence[EnvironmentFreeze]

    def get_freeze(self, environment: Environment) -> EnvironmentFreeze | None:
        """Return the first active window that blocks an environment, or None."""
        return next((freeze for freeze in self.freezes if self._applies(freeze.window, environment)), None)

    def filter_frozen(self, environments: QuerySet[Environment]) -> QuerySet[Environment]:
        """Return the environments that an active window blocks."""
        conditions = [self._build_condition(freeze.window) for freeze in self.freezes]
        return environments.filter(reduce(or_, conditions)) if conditions else environments.none()

    def _applies(self, window: FreezeWindow, environment: Environment) -> bool:
        is_in_reach = self._is_above(window) or window.scope.path in environment.scope.ancestor_paths()
        return is_in_reach and matches_environment(window, environment.identifier, environment.kind)

    def _build_condition(self, window: FreezeWindow) -> Q:
        """Return the same condition as `_applies` for the database."""
        condition = Q() if self._is_above(window) else build_below_filter(window.scope)
        if window.environments:
            condition &= Q(identifier__in=window.environments)
        if window.environment_kind:
            condition &= Q(kind=window.environment_kind)
        return condition or Q(pk__isnull=False)

    def _is_above(self, window: FreezeWindow) -> bool:
        return window.scope.path in self.scope.ancestor_paths()


def load_environment_freezes(scope: Scope, now: datetime) -> EnvironmentFreezes:
    """Return the active windows of a scope, of those above it and of those below it; one query."""
    related = Q(scope__path__in=scope.ancestor_paths()) | build_below_filter(scope)
    windows = FreezeWindow.objects.filter(related, enabled=True).select_related("scope")
    periods = ((window, get_period_at(window, now)) for window in windows)
    freezes = [EnvironmentFreeze(window, period) for window, period in periods if period is not None]
    freezes.sort(key=lambda freeze: freeze.period.ends, reverse=True)
    return EnvironmentFreezes(scope, sorted(freezes, key=lambda freeze: freeze.is_partial))
