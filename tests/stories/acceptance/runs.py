"""Acceptance runs on the sandbox of a drive."""

import json
import os
from dataclasses import replace

from connectors.models import Connector
from ops.acceptance.comparison import SANDBOX_FILE
from ops.acceptance.observations import Observation
from ops.acceptance.runs import AcceptanceResult, create_run, run_scenarios
from ops.acceptance.scenarios import Pause
from ops.acceptance.targets import AcceptanceTarget, BlueGreenTarget, open_caller
from rbac.models import Scope, User
from tests.fixtures.engine_driver import Drive


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


def run_acceptance(
    drive: Drive,
    target: AcceptanceTarget,
    *,
    result: AcceptanceResult | None = None,
    pause: Pause | None = None,
    scope: Scope | None = None,
) -> AcceptanceResult:
    """Run every scenario on the clocks of the drive."""
    result = result or AcceptanceResult(create_run())
    run_scenarios(
        result,
        actor=User.objects.get(username="admin"),
        target=target,
        scope=scope or target.connector.scope,
        pause=pause or drive.pass_time,
        announce=lambda _: None,
    )
    return result


def write_expected(observations: list[Observation]) -> None:
    """Write the expected observations anew, if `SLIPWAY_WRITE_GOLDEN` asks for it; read them."""
    if os.environ.get("SLIPWAY_WRITE_GOLDEN"):
        records = [observation.to_json() for observation in observations]
        SANDBOX_FILE.write_text(json.dumps(records, indent=1) + "\n")
