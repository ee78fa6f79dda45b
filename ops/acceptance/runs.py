"""Passes of workers over acceptance runs: each claims a run, does what is next, and stores the position.

Rows are created in the transaction that stores the position, so a worker that dies repeats only reads and
deletions. A pass takes seconds; nothing waits in it.
"""

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import transaction
from django.db.models import F, Q

from ops.acceptance.deletions import Deletion, advance_deletion
from ops.acceptance.observations import Observation
from ops.acceptance.observer import Observer
from ops.acceptance.resources import RunKey, create_disposable_project
from ops.acceptance.rules import Verdict, evaluate_rules
from ops.acceptance.scenarios import (
    SCENARIOS_BY_NAME,
    ScenarioPhase,
    ScenarioProgress,
    advance_scenario,
    finish_scenario,
    list_aws_services,
    start_scenario,
)
from ops.acceptance.targets import AcceptanceImpossible, AcceptanceTarget
from ops.models import AcceptanceRun
from rbac.models import User
from rbac.policy import Forbidden
from web.http.problems import Problem
from web.live import publish_change_on_commit
from web.retention import RetentionRule

PASS_INTERVAL: Final = timedelta(seconds=5)
# Longer than Celery lets a pass take.
LEASE_LENGTH: Final = timedelta(seconds=60)
MAX_FAILED_PASSES: Final = 5
# More passes than a run makes: a restored run gets a fence that no worker of the later state has.
_RESTORED_FENCE_STEP: Final = 1_000_000
LIVE_SOURCE: Final = "acceptance-runs"
Status = AcceptanceRun.Status
logger = logging.getLogger(__name__)

ACCEPTANCE_RETENTION: Final = (
    RetentionRule(
        "Acceptance runs",
        # One that left something in AWS leads to its deletion.
        AcceptanceRun.objects.filter(left=[]),
        "ended_at",
        setting="SLIPWAY_KEEP_ACCEPTANCE_RUNS_DAYS",
    ),
)


class LeaseLost(Exception):
    """Error raised when another worker has claimed the run."""


@dataclass
class RunProgress:
    """Position of a run; `actor` is the key of the user in whose name rows are created and deleted.

    `leftovers` are the keys of earlier runs that are deleted first.
    """

    actor: int | None = None
    leftovers: list[str] = field(default_factory=list)
    is_created: bool = False
    observer: dict[str, Any] = field(default_factory=dict)
    scenario: dict[str, Any] | None = None
    deletion: dict[str, Any] | None = None


def list_due_runs(now: datetime) -> list[int]:
    """Return the keys of the runs that wait for a pass; one query."""
    return list(_filter_due(now).values_list("pk", flat=True))


def advance_run(pk: int, now: datetime) -> None:
    """Make one pass over a run, unless another worker does."""
    if (
        not _filter_due(now)
        .filter(pk=pk)
        .update(
            fence=F("fence") + 1, lease_expires_at=now + LEASE_LENGTH, failed_passes=F("failed_passes") + 1
        )
    ):
        return
    run = AcceptanceRun.objects.select_related("connector__scope", "connector__secret", "scope").get(pk=pk)
    try:
        RunPass(run, now).perform()
    except LeaseLost:
        logger.info("Another worker has taken over the %s", run)


def _filter_due(now: datetime) -> Any:
    is_free = Q(lease_expires_at=None) | Q(lease_expires_at__lte=now)
    return AcceptanceRun.objects.filter(is_free, due_at__lte=now)


def end_restored_runs(*, taken_at: datetime, now: datetime) -> int:
    """End the open runs of a restored database, and return their number; call it inside a transaction.

    Nobody knows what they did in AWS after the backup, which was made at `taken_at`. So they end as unknown,
    and a person decides to delete what they created.
    """
    runs = AcceptanceRun.objects.select_for_update().filter(ended_at=None)
    for run in runs:
        left = f"What run {run.key} created may be left. Delete it before you rely on the cluster."
        AcceptanceRun.objects.filter(pk=run.pk).update(
            status=Status.UNKNOWN,
            problem=f"The database was restored from its state of {taken_at:%Y-%m-%d %H:%M} UTC.",
            left=[left],
            verdicts=_count_verdicts(run),
            progress=asdict(RunProgress()),
            ended_at=now,
            due_at=None,
            lease_expires_at=None,
            fence=F("fence") + _RESTORED_FENCE_STEP,
        )
    return len(runs)


def _count_verdicts(run: AcceptanceRun) -> dict[Verdict, int]:
    results = evaluate_rules(map(Observation.from_json, run.observations))
    return {verdict: sum(each.verdict is verdict for each in results) for verdict in Verdict}


class RunPass:
    """One pass over a claimed run."""

    def __init__(self, run: AcceptanceRun, now: datetime) -> None:
        self.run, self.now = run, now
        self.key, self.progress = RunKey(run.key), RunProgress(**run.progress)

    def perform(self) -> None:
        """Do what is next. Raises `LeaseLost`."""
        is_stuck = self.run.failed_passes > MAX_FAILED_PASSES
        if self.run.status == Status.CLEANING_UP:
            self._clean_up(is_stuck=is_stuck)
        elif self.run.cancel_requested_at:
            self._begin_cleanup()
        elif is_stuck:
            self._begin_cleanup(
                f"{MAX_FAILED_PASSES} passes in a row did not come to their end. See the worker's log."
            )
        else:
            try:
                self._advance()
            except (Problem, Forbidden) as error:
                self._begin_cleanup(str(error))

    def _advance(self) -> None:
        target = self._open_target()
        if self.progress.leftovers:
            self._delete_leftover(target)
        elif not self.progress.is_created:
            self._create_project(target)
        elif self.progress.scenario is None:
            self._start_next_scenario(target)
        else:
            self._advance_scenario(target, self.progress.scenario)

    def _open_target(self) -> AcceptanceTarget:
        if self.run.connector is None:
            raise AcceptanceImpossible(f"The connector {self.run.connector_name} was deleted.")
        return AcceptanceTarget.open(self.run.connector, self.run.target)

    def _get_actor(self) -> User:
        actor = User.objects.filter(pk=self.progress.actor or 0, is_active=True).first()
        if actor is None:
            raise AcceptanceImpossible("The user in whose name the run acts is no longer active.")
        return actor

    def _delete_leftover(self, target: AcceptanceTarget) -> None:
        first, *others = self.progress.leftovers
        deletion = self._advance_deletion(target, first)
        if deletion.left:
            raise AcceptanceImpossible(f"An earlier run is left: {' '.join(deletion.left)}")
        if deletion.is_over:
            self.progress.leftovers, self.progress.deletion = others, None
        self._save()

    def _create_project(self, target: AcceptanceTarget) -> None:
        with transaction.atomic():
            scope = create_disposable_project(
                actor=self._get_actor(), run=self.key, target=target, scope=self.run.scope
            )
            self.progress.is_created = True
            self._save(scope=scope)

    def _start_next_scenario(self, target: AcceptanceTarget) -> None:
        names = self.run.scenarios[len(self.run.observations) :]
        if not names:
            self._begin_cleanup()
            return
        scenario, observer = SCENARIOS_BY_NAME[names[0]], self._open_observer(target)
        observer.begin(scenario.name, list_aws_services(self.key, scenario))
        # What was before the deployment, which changes it within seconds.
        observer.poll()
        with transaction.atomic():
            position = start_scenario(
                scenario,
                actor=self._get_actor(),
                run=self.key,
                scope=self.run.scope,
                target=target,
                now=self.now,
            )
            self.progress.scenario, self.progress.observer = asdict(position), observer.to_json()
            self._save()

    def _advance_scenario(self, target: AcceptanceTarget, record: Mapping[str, Any]) -> None:
        position = ScenarioProgress(**{**record, "phase": ScenarioPhase(record["phase"])})
        observer, observations = self._open_observer(target), self.run.observations
        observer.poll()
        with transaction.atomic():
            if advance_scenario(position, actor=self._get_actor(), now=self.now):
                observations = [*observations, finish_scenario(position, observer).to_json()]
                self.progress.scenario = None
            else:
                self.progress.scenario = asdict(position)
            self.progress.observer = observer.to_json()
            self._save(observations=observations)

    def _open_observer(self, target: AcceptanceTarget) -> Observer:
        names = {self.key.aws_name: "acceptance"}
        return Observer.from_json(target.caller, target.cluster, names, self.progress.observer)

    def _begin_cleanup(self, problem: str = "") -> None:
        self.progress = RunProgress(actor=self.progress.actor)
        self._save(status=Status.CLEANING_UP, problem=problem)

    def _clean_up(self, *, is_stuck: bool) -> None:
        if is_stuck:
            self._finish(["Deletion did not come to its end. See the worker's log."])
            return
        try:
            deletion = self._advance_deletion(self._open_target(), self.key.id)
        except (Problem, Forbidden) as error:
            self._finish([f"The resources of run {self.key.id} are left: {error}"])
            return
        if deletion.is_over:
            self._finish(deletion.left)
        else:
            self._save()

    def _advance_deletion(self, target: AcceptanceTarget, key: str) -> Deletion:
        deletion = Deletion(**(self.progress.deletion or {"run": key}))
        advance_deletion(deletion, actor=self._get_actor(), target=target, now=self.now)
        self.progress.deletion = asdict(deletion)
        return deletion

    def _finish(self, left: list[str]) -> None:
        verdicts = _count_verdicts(self.run)
        is_good = self.run.is_complete and not (left or self.run.problem) and not verdicts[Verdict.BROKEN]
        status = Status.SUCCESS if is_good else Status.FAILED
        if self.run.cancel_requested_at:
            status = Status.ABORTED
        self.progress = RunProgress()
        self._save(status=status, left=left, verdicts=verdicts, ended_at=self.now, due_at=None)

    def _save(self, **values: Any) -> None:
        """Store the position, and release the run. Raises `LeaseLost`."""
        released = {"lease_expires_at": None, "failed_passes": 0, "due_at": self.now + PASS_INTERVAL}
        rows = AcceptanceRun.objects.filter(pk=self.run.pk, fence=self.run.fence)
        if not rows.update(**{**released, "progress": asdict(self.progress), **values}):
            raise LeaseLost
        publish_change_on_commit(LIVE_SOURCE, self.run.pk)
