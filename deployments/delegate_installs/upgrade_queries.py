"""Automatic upgrades of a delegate as its pages and the API show them."""

from dataclasses import dataclass, replace

from delegates.installations import LastUpgrade, UpgradeSummary
from delegates.models import Delegate
from deployments.delegate_installs.records import list_installation_places
from deployments.delegate_installs.upgrade_windows import UpgradeTimes
from deployments.models import DelegateUpgrade, DelegateUpgradeWindow, Execution
from rbac.models import User
from rbac.policy import filter_visible

MOST_UPGRADES = 20
VIEW_PIPELINE = "core_pipeline_view"
_MARKS = {
    DelegateUpgrade.Status.RUNNING: "RUNNING",
    DelegateUpgrade.Status.SUCCEEDED: "SUCCESS",
    DelegateUpgrade.Status.FAILED: "FAILED",
    DelegateUpgrade.Status.SKIPPED: "SKIPPED",
}


@dataclass(frozen=True)
class AutomaticUpgrades:
    """Window of a delegate, if any, and its newest upgrades; `is_deployed` if Slipway deployed it."""

    is_deployed: bool
    window: DelegateUpgradeWindow | None
    upgrades: list[LastUpgrade]

    @property
    def times(self) -> UpgradeTimes | None:
        return UpgradeTimes.from_window(self.window) if self.window else None


def load_automatic_upgrades(delegate: Delegate, most: int = MOST_UPGRADES) -> AutomaticUpgrades:
    """Return the window of a delegate and its newest upgrades, the last one first; three queries."""
    upgrades = DelegateUpgrade.objects.filter(delegate=delegate).order_by("-window_begins_at", "-pk")[:most]
    window = DelegateUpgradeWindow.objects.select_related("allowed_by").filter(delegate=delegate).first()
    return AutomaticUpgrades(
        window is not None or list_installation_places(delegate).exists(),
        window,
        [_build_upgrade(upgrade) for upgrade in upgrades],
    )


def read_upgrade_summary(delegate: Delegate, viewer: User) -> UpgradeSummary | None:
    """Return the summary for the page of a delegate; None if Slipway did not deploy it.

    It names the execution only to who can view it.
    """
    automatic = load_automatic_upgrades(delegate, most=1)
    if not automatic.is_deployed:
        return None
    last = next(iter(automatic.upgrades), None)
    if last and last.execution:
        executions = filter_visible(viewer, VIEW_PIPELINE, Execution.objects.filter(pk=last.execution))
        last = last if executions.exists() else replace(last, execution="")
    return UpgradeSummary(
        times=str(automatic.times or ""),
        next_at=automatic.window.due_at if automatic.window else None,
        last=last,
    )


def _build_upgrade(upgrade: DelegateUpgrade) -> LastUpgrade:
    status = DelegateUpgrade.Status(upgrade.status)
    return LastUpgrade(
        status=_MARKS[status],
        word=str(status.label),
        image=upgrade.image,
        problem=upgrade.problem,
        execution=str(upgrade.execution_id or ""),
        at=upgrade.started_at,
    )
