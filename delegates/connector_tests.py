"""Trying an AWS connector: who it is there, what it may see, and what to do next where it may not."""

from dataclasses import dataclass, field

from django.db import transaction
from django.utils import timezone

from aws.caller import Caller
from aws.ecs import Ecs
from aws.errors import AwsError
from aws.sts import Identity, Sts
from connectors.aws_accounts import AwsSpec, read_spec
from connectors.downstream import needs_of_connector, refuse_lacking
from connectors.models import Connector
from delegates.doors import DoorClosed, call_here
from delegates.errands import SiteCaller
from delegates.next_steps import NextStep, next_step
from delegates.site_tests import examine_site
from delegates.trials import Check, ConnectorTest
from rbac.audit import record
from rbac.policy import Principal

IDENTITY, CLUSTERS = "Who it is", "ECS clusters"


@dataclass
class _Trial:
    """A test under way."""

    spec: AwsSpec
    region: str
    delegate: str = ""
    checks: list[Check] = field(default_factory=list)
    identity: Identity = field(default_factory=lambda: Identity("", ""))
    next_step: NextStep = field(default_factory=lambda: NextStep(""))

    def passed(self, name: str, message: str) -> None:
        self.checks.append(Check(name, True, message))

    def failed(self, name: str, problem: AwsError | DoorClosed) -> None:
        self.checks.append(Check(name, False, str(problem)))
        if isinstance(problem, DoorClosed):
            self.next_step = NextStep("Edit the connector, then test again.")
        else:
            self.next_step = next_step(problem, self.spec, self.region)

    def result(self) -> ConnectorTest:
        return ConnectorTest(
            ok=all(one.ok for one in self.checks),
            message=" ".join(one.message for one in self.checks),
            region=self.region,
            account_id=self.identity.account_id,
            arn=self.identity.arn,
            checks=tuple(self.checks),
            next_step=self.next_step.text,
            policy=self.next_step.policy,
            delegate=self.delegate,
        )


def try_connector(
    *,
    actor: Principal,
    connector: Connector,
    region: str = "",
) -> ConnectorTest:
    """Try a connector from here (R152, R154); the connector keeps the result.

    Through a delegate it is `inquiries.ask`.
    """
    refuse_lacking(actor, needs_of_connector(connector))
    if connector.kind == Connector.Kind.AWS:
        tested = _tried(connector, region or read_spec(connector.spec).test_region)
    else:
        tested = examine_site(connector, SiteCaller(connector))
    keep_test(actor=actor, connector=connector, tested=tested)
    return tested


def _tried(connector: Connector, region: str) -> ConnectorTest:
    """Ask AWS from here who we are, and for the clusters of a region."""
    try:
        return examine(connector, region, call_here(connector, region))
    except DoorClosed as closed:
        trial = _Trial(read_spec(connector.spec), region)
        trial.failed(IDENTITY, closed)
        return trial.result()


def keep_test(*, actor: Principal, connector: Connector, tested: ConnectorTest) -> None:
    """Write down on the connector what came of its test."""
    connector.last_tested_at = timezone.now()
    connector.last_test_ok = tested.ok
    connector.last_test_message = tested.message
    connector.last_test_report = tested.to_json()
    with transaction.atomic():
        connector.save(
            update_fields=["last_tested_at", "last_test_ok", "last_test_message", "last_test_report"]
        )
        after = {"ok": tested.ok, "message": tested.message}
        record(actor=actor, action="connector.test", thing=connector, after=after)


def examine(connector: Connector, region: str, caller: Caller, *, delegate: str = "") -> ConnectorTest:
    """Make the calls of a test; `delegate` is who makes them, where it is not this Slipway."""
    trial = _Trial(read_spec(connector.spec), region, delegate)
    try:
        trial.identity = Sts(caller).identity()
    except AwsError as problem:
        trial.failed(IDENTITY, problem)
        return trial.result()
    trial.passed(IDENTITY, f"Connected to account {trial.identity.account_id} as {trial.identity.arn}.")
    _try_clusters(trial, caller)
    return trial.result()


def _try_clusters(trial: _Trial, caller: Caller) -> None:
    try:
        count = len(Ecs(caller).list_clusters())
    except AwsError as error:
        trial.failed(CLUSTERS, error)
    else:
        clusters = "1 ECS cluster" if count == 1 else f"{count} ECS clusters"
        trial.passed(CLUSTERS, f"{clusters} in {trial.region}.")
