"""Acceptance runs on the sandbox of a drive."""

import json
import os
from dataclasses import replace

from connectors.models import Connector
from ops.acceptance.comparison import SANDBOX_FILE
from ops.acceptance.observations import Observation
from ops.acceptance.operations import start_run
from ops.acceptance.plans import AcceptancePlan, check_permissions
from ops.acceptance.resources import RunKey, create_run_key
from ops.acceptance.runs import PASS_INTERVAL, advance_run
from ops.acceptance.targets import AcceptanceTarget, BlueGreenTarget, open_caller
from ops.models import AcceptanceRun
from rbac.models import Scope, User
from tests.fixtures.engine_driver import Drive

# More than two hours.
MAX_PASSES = 1500


def build_target(drive: Drive, *, has_load_balancer: bool = True) -> AcceptanceTarget:
    """Return the cluster of the demo as a target."""
    seed = drive.sandbox.seed()
    connector = Connector.objects.select_related("scope", "secret").get(identifier="sandbox_aws")
    caller, region = open_caller(connector, "")
    target = AcceptanceTarget(
        connector=connector,
        region=region,
        cluster=seed["cluster"],
        subnets=tuple(seed["subnets"]),
        security_groups=(seed["security_group"],),
        caller=caller,
    )
    if not has_load_balancer:
        return target
    balancer = seed["load_balancer"]
    blue_green = BlueGreenTarget(
        load_balancer=balancer["arn"],
        prod_listener=balancer["prod_listener"]["arn"],
        prod_rule=balancer["prod_listener"]["default_rule_arn"],
        stage_listener=balancer["stage_listener"]["arn"],
        stage_rule=balancer["stage_listener"]["default_rule_arn"],
    )
    return replace(target, blue_green=blue_green)


def start_acceptance(
    target: AcceptanceTarget, *, scope: Scope | None = None, leftovers: tuple[RunKey, ...] = ()
) -> AcceptanceRun:
    """Start a run, as after the confirmation of its plan."""
    plan = AcceptancePlan(
        create_run_key(), target, scope or target.connector.scope, check_permissions(target), leftovers
    )
    return start_run(actor=User.objects.get(username="admin"), plan=plan)


def make_passes(drive: Drive, run: AcceptanceRun, count: int) -> AcceptanceRun:
    """Make passes over a run, as workers do, on the clocks of the drive."""
    for _ in range(count):
        advance_run(run.pk, drive.clock.now())
        run.refresh_from_db()
        if run.is_over:
            break
        drive.pass_time(PASS_INTERVAL.total_seconds())
    return run


def run_acceptance(drive: Drive, target: AcceptanceTarget) -> AcceptanceRun:
    """Run every scenario."""
    return make_passes(drive, start_acceptance(target), MAX_PASSES)


def load_observations(run: AcceptanceRun) -> list[Observation]:
    return [Observation.from_json(record) for record in run.observations]


def write_expected(observations: list[Observation]) -> None:
    """Write the expected observations anew, if `SLIPWAY_WRITE_GOLDEN` asks for it; read them."""
    if os.environ.get("SLIPWAY_WRITE_GOLDEN"):
        records = [observation.to_json() for observation in observations]
        SANDBOX_FILE.write_text(json.dumps(records, indent=1) + "\n")
