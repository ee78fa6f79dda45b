"""`manage.py acceptance`: disposable deployments in one's own account, compared with the sandbox."""

import json
import signal
import sys
import time
from argparse import ArgumentParser
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from aws.apis.iam import StsClient
from aws.errors import AwsError
from ops.acceptance.plans import PermissionCheck, check_permissions, describe_plan
from ops.acceptance.reports import AcceptanceReport
from ops.acceptance.resources import AcceptanceRun, choose_scope
from ops.acceptance.rules import Verdict
from ops.acceptance.runs import AcceptanceResult, create_run, delete_run, find_leftover_runs, run_scenarios
from ops.acceptance.targets import (
    DEFAULT_IMAGE,
    AcceptanceImpossible,
    AcceptanceTarget,
    BlueGreenTarget,
    find_connector,
    find_network,
    open_caller,
)
from ops.health import list_failed_checks
from rbac.models import RoleAssignment, Scope, User
from web.http.problems import Problem


class Command(BaseCommand):
    """Command that exits with 1 if a rule was broken, a scenario is missing, or something is left."""

    help = (
        "Deploy a small disposable service to a cluster of yours: versions that run, crash, cannot be pulled "
        "and are rolled back. Report where ECS does something else than the sandbox. Asks first, names the "
        "cost, and deletes what it created."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--connector", required=True, help="AWS connector: identifier or scope/identifier"
        )
        parser.add_argument("--cluster", required=True, help="name of the ECS cluster")
        parser.add_argument("--region", default="", help="by default the test region of the connector")
        parser.add_argument("--user", default="", help="who deploys; by default an account administrator")
        parser.add_argument("--organization", default="", help="for a connector of the account")
        parser.add_argument("--subnets", default="", help="comma-separated; by default those of a service")
        parser.add_argument("--security-groups", default="", help="comma-separated; by default likewise")
        parser.add_argument("--execution-role", default="", help="ARN; needed for private images")
        parser.add_argument("--image", default=DEFAULT_IMAGE, help=f"nginx, with tag ({DEFAULT_IMAGE})")
        parser.add_argument("--no-public-ip", action="store_true", help="for subnets with a NAT gateway")
        parser.add_argument("--load-balancer", default="", help="ARN; adds blue/green deployments")
        for name in ("prod-listener", "prod-rule", "stage-listener", "stage-rule"):
            parser.add_argument(f"--{name}", default="", help="ARN, for blue/green")
        parser.add_argument("--report", type=Path, default=Path("acceptance"), help="files, without suffix")
        parser.add_argument("--full", action="store_true", help="name account, principal and cluster too")
        parser.add_argument("--clean-up", action="store_true", help="only delete what earlier runs left")
        parser.add_argument("--yes", action="store_true", help="do not ask")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self._handle(options)
        except (AcceptanceImpossible, AwsError) as problem:
            raise CommandError(str(problem)) from problem
        except Problem as problem:
            raise CommandError(problem.detail) from problem

    def _handle(self, options: dict[str, Any]) -> None:
        actor = _find_user(options["user"])
        target = _build_target(options)
        self._clean_up(actor, target, options)
        if options["clean_up"]:
            return
        _require_workers()
        scope = choose_scope(target.connector, _find_organization(options["organization"]))
        run, permissions = create_run(), check_permissions(target)
        for line in describe_plan(run, target, permissions):
            self.stdout.write(line)
        self._ask("Start", options)
        # The end of a session ends the run as Ctrl-C does: with the cleanup.
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.default_int_handler)
        started_at = datetime.now(UTC)
        result = AcceptanceResult(run)
        try:
            run_scenarios(
                result,
                actor=actor,
                target=target,
                scope=scope,
                pause=time.sleep,
                announce=self.stdout.write,
            )
        except KeyboardInterrupt:
            self.stdout.write("Interrupted.")
        except Problem as problem:
            self.stdout.write(f"Stopped: {problem.detail}")
        self._report(result, target, started_at, permissions, options)

    def _clean_up(self, actor: User, target: AcceptanceTarget, options: dict[str, Any]) -> None:
        runs = find_leftover_runs(target)
        if not runs:
            if options["clean_up"]:
                self.stdout.write("Earlier runs left nothing here.")
            return
        self.stdout.write(f"Runs left resources here: {', '.join(run.aws_name for run in runs)}.")
        self._ask("Delete them", options)
        if left := [text for run in runs for text in self._delete(actor, target, run)]:
            raise CommandError(" ".join(left))

    def _delete(self, actor: User, target: AcceptanceTarget, run: AcceptanceRun) -> list[str]:
        self.stdout.write(f"Deleting {run.aws_name} …")
        return delete_run(actor=actor, target=target, run=run, pause=time.sleep)

    def _ask(self, question: str, options: dict[str, Any]) -> None:
        if options["yes"]:
            return
        self.stdout.write(f"{question}? Type yes: ", ending="")
        self.stdout.flush()
        if sys.stdin.readline().strip() != "yes":
            raise CommandError("Nothing was changed.")

    def _report(
        self,
        result: AcceptanceResult,
        target: AcceptanceTarget,
        started_at: datetime,
        permissions: PermissionCheck,
        options: dict[str, Any],
    ) -> None:
        report = AcceptanceReport(
            result=result,
            version=settings.SLIPWAY_VERSION,
            region=target.region,
            started_at=started_at,
            ended_at=datetime.now(UTC),
            permissions=permissions,
            private=_describe_account(target) if options["full"] else {},
        )
        base: Path = options["report"]
        files = [base.with_name(f"{base.name}{suffix}") for suffix in (".md", ".json")]
        files[0].write_text(report.to_markdown())
        files[1].write_text(json.dumps(report.to_json(), indent=2) + "\n")
        broken = [each for each in report.rule_results if each.verdict is Verdict.BROKEN]
        for each in broken:
            self.stdout.write(f"BROKEN {each.rule.identifier}: {each.rule.sentence}")
            for text in each.seen:
                self.stdout.write(f"  {text}")
        held = sum(each.verdict is Verdict.HELD for each in report.rule_results)
        self.stdout.write(f"{held} rules held, {len(broken)} broken. Report: {files[0]}, {files[1]}")
        for text in result.left:
            self.stdout.write(text)
        if broken or result.left or not result.is_complete:
            sys.exit(1)


def _build_target(options: dict[str, Any]) -> AcceptanceTarget:
    connector = find_connector(options["connector"])
    caller, region = open_caller(connector, options["region"])
    given = [tuple(filter(None, options[name].split(","))) for name in ("subnets", "security_groups")]
    subnets, groups = ((), ()) if options["clean_up"] else find_network(caller, options["cluster"], *given)
    if ":" not in options["image"].rpartition("/")[2] or "@" in options["image"]:
        raise AcceptanceImpossible("Name the image with a tag, such as nginx:stable.")
    return AcceptanceTarget(
        connector=connector,
        region=region,
        cluster=options["cluster"],
        subnets=subnets,
        security_groups=groups,
        image=options["image"],
        execution_role=options["execution_role"],
        has_public_ip=not options["no_public_ip"],
        blue_green=_build_blue_green(options),
        caller=caller,
    )


def _build_blue_green(options: dict[str, Any]) -> BlueGreenTarget | None:
    if not options["load_balancer"]:
        return None
    if not (options["prod_listener"] and options["stage_listener"]):
        raise AcceptanceImpossible("Blue/green needs --prod-listener and --stage-listener too.")
    return BlueGreenTarget(
        load_balancer=options["load_balancer"],
        prod_listener=options["prod_listener"],
        prod_rule=options["prod_rule"],
        stage_listener=options["stage_listener"],
        stage_rule=options["stage_rule"],
    )


def _find_user(username: str) -> User:
    people = User.objects.filter(is_active=True, kind=User.Kind.PERSON)
    if username:
        person = people.filter(username=username).first()
        if person is None:
            raise AcceptanceImpossible(f"There is no active user {username}.")
        return person
    administrators = RoleAssignment.objects.filter(
        role__identifier="account_admin", role__scope=None, scope=Scope.objects.account(), user__isnull=False
    )
    person = people.filter(pk__in=administrators.values("user")).order_by("pk").first()
    if person is None:
        raise AcceptanceImpossible("There is no account administrator. Name a user with --user.")
    return person


def _find_organization(identifier: str) -> Scope | None:
    if not identifier:
        return None
    organization = Scope.objects.at(org=identifier).filter(archived_at=None).first()
    if organization is None:
        raise AcceptanceImpossible(f"There is no organization {identifier}.")
    return organization


def _require_workers() -> None:
    failed = list_failed_checks()
    if reasons := [text for name, text in failed.items() if name in ("broker", "worker", "dispatcher")]:
        raise AcceptanceImpossible(f"Deployments need running workers. {' '.join(reasons)}")


def _describe_account(target: AcceptanceTarget) -> dict[str, str]:
    identity = StsClient(target.caller).get_identity()
    return {
        "Account": identity.account_id,
        "Principal": identity.arn,
        "Cluster": target.cluster,
        "Connector": str(target.connector),
    }
