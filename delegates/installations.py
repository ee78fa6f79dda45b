"""Installations of delegates by Slipway, and their automatic upgrades, registered by what makes them."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from connectors.models import Connector
from delegates.install.plan import SpecPlan
from delegates.models import Delegate
from rbac.models import Scope, User


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


@dataclass(frozen=True)
class LastUpgrade:
    """Automatic upgrade of a delegate that began last; `status` is a status mark, `word` its text."""

    status: str
    word: str
    image: str
    problem: str
    execution: str
    at: datetime

    @property
    def has_failed(self) -> bool:
        return self.status == "FAILED"


@dataclass(frozen=True)
class UpgradeSummary:
    """Automatic upgrades of a delegate that Slipway deployed; `times` are empty while there are none."""

    times: str
    next_at: datetime | None
    last: LastUpgrade | None


UpgradeReader = Callable[[Delegate, User], UpgradeSummary | None]
_upgrade_readers: list[UpgradeReader] = []


def register_upgrade_reader(read: UpgradeReader) -> None:
    """Register the only function that returns the automatic upgrades of a delegate."""
    _upgrade_readers[:] = [read]


def get_upgrade_summary(delegate: Delegate, viewer: User) -> UpgradeSummary | None:
    """Return the automatic upgrades of a delegate as a user sees them; None if Slipway did not deploy it."""
    return _upgrade_readers[0](delegate, viewer) if _upgrade_readers and delegate.spec else None
