"""Installations of delegates by Slipway, registered by what makes them."""

from collections.abc import Callable
from dataclasses import dataclass

from connectors.models import Connector
from delegates.install.plan import SpecPlan
from delegates.models import Delegate
from rbac.models import Scope


@dataclass(frozen=True)
class DelegateInstallation:
    """What Slipway made for a delegate in AWS, and in a project; `plan` has its cluster and region.

    `stack_parts` says what the stack holds, `identifier` names pipeline, service and environment.
    """

    project: Scope
    connector: Connector
    plan: SpecPlan
    stack: str
    stack_parts: tuple[str, ...]
    identifier: str
    secret: str


InstallationFinder = Callable[[Delegate], list[DelegateInstallation]]
_finders: list[InstallationFinder] = []


def register_installation_finder(find: InstallationFinder) -> None:
    """Register what returns the installations of a delegate, the newest first."""
    _finders.append(find)


def list_installations(delegate: Delegate) -> list[DelegateInstallation]:
    """Return the installations of a delegate, the newest first; each may have been rolled back."""
    return [installation for find in _finders for installation in find(delegate)]
