"""`manage.py acceptance`: disposable deployments in one's own account, compared with the sandbox."""

import json
import signal
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError

from aws.apis.iam import StsClient
from aws.errors import AwsError
from ops.acceptance import operations
from ops.acceptance.deletions import delete_run, find_leftover_runs
from ops.acceptance.operations import AcceptanceSpec
from ops.acceptance.plans import describe_plan
from ops.acceptance.reports import AcceptanceReport, describe_progress
from ops.acceptance.rules import Verdict
from ops.acceptance.targets import (
    DEFAULT_IMAGE,
    AcceptanceImpossible,
    AcceptanceTarget,
    BlueGreenTarget,
    find_connector,
    open_caller,
)
from ops.models import AcceptanceRun
from rbac.models import RoleAssignment, Scope, User
from rbac.policy import Forbidden
from web.http.problems import Conflict, Problem

WATCH_SECONDS: Final = 2.0


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
        except (AwsError, Forbidden) as problem:
            raise CommandError(str(problem)) from problem
        except Problem as problem:
            raise CommandError(problem.detail) from problem

    def _handle(self, options: dict[str, Any]) -> None:
        actor, spec = _find_user(options["user"]), _build_spec(options)
        if options["clean_up"]:
            self._clean_up(actor, spec, options)
            return
        plan = operations.plan_run(actor=actor, spec=spec)
        for line in describe_plan(plan):
            self.stdout.write(line)
        self._ask("Start", options)
        # The end of a session ends the run as Ctrl-C does: with the cleanup.
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.default_int_handler)
        run = operations.start_run(actor=actor, plan=plan)
        try:
            self._watch(run)
        except KeyboardInterrupt:
            self.stdout.write("Interrupted. A worker deletes what the run created …")
            _cancel(actor, run)
            self._watch(run)
        self._report(run, plan.target, options)

    def _clean_up(self, actor: User, spec: AcceptanceSpec, options: dict[str, Any]) -> None:
        operations.require_run_access(actor, spec.connector)
        caller, region = open_caller(spec.connector, spec.region)
        target = AcceptanceTarget(spec.connector, region, spec.cluster, (), (), caller=caller)
        runs = find_leftover_runs(target)
        if not runs:
            self.stdout.write("Earlier runs left nothing here.")
            return
        self.stdout.write(f"Runs left resources here: {', '.join(run.aws_name for run in runs)}.")
        self._ask("Delete them", options)
        left = []
        for run in runs:
            self.stdout.write(f"Deleting {run.aws_name} …")
            left += delete_run(actor=actor, target=target, run=run, pause=time.sleep)
        if left:
            raise CommandError(" ".join(left))

    def _watch(self, run: AcceptanceRun) -> None:
        """Print the progress of a run until its end."""
        shown: set[str] = set()
        while True:
            run.refresh_from_db()
            for line in describe_progress(run):
                if line not in shown:
                    self.stdout.write(line)
                shown.add(line)
            if run.is_over:
                return
            time.sleep(WATCH_SECONDS)

    def _ask(self, question: str, options: dict[str, Any]) -> None:
        if options["yes"]:
            return
        self.stdout.write(f"{question}? Type yes: ", ending="")
        self.stdout.flush()
        if sys.stdin.readline().strip() != "yes":
            raise CommandError("Nothing was changed.")

    def _report(self, run: AcceptanceRun, target: AcceptanceTarget, options: dict[str, Any]) -> None:
        report = AcceptanceReport.of(run, _describe_account(target) if options["full"] else {})
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
        for text in run.left:
            self.stdout.write(text)
        if run.status != AcceptanceRun.Status.SUCCESS:
            sys.exit(1)


def _cancel(actor: User, run: AcceptanceRun) -> None:
    try:
        operations.cancel_run(actor=actor, run=run)
    except Conflict:
        # It is cleaning up already.
        return


def _build_spec(options: dict[str, Any]) -> AcceptanceSpec:
    return AcceptanceSpec(
        connector=find_connector(options["connector"]),
        cluster=options["cluster"],
        region=options["region"],
        subnets=tuple(_split(options["subnets"])),
        security_groups=tuple(_split(options["security_groups"])),
        image=options["image"],
        execution_role=options["execution_role"],
        has_public_ip=not options["no_public_ip"],
        organization=_find_organization(options["organization"]),
        blue_green=_build_blue_green(options),
    )


def _split(text: str) -> Iterator[str]:
    return filter(None, (part.strip() for part in text.split(",")))


def _build_blue_green(options: dict[str, Any]) -> BlueGreenTarget | None:
    names = ("load_balancer", "prod_listener", "prod_rule", "stage_listener", "stage_rule")
    values = {name: options[name] for name in names}
    return BlueGreenTarget(**values) if any(values.values()) else None


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


def _describe_account(target: AcceptanceTarget) -> dict[str, str]:
    identity = StsClient(target.caller).get_identity()
    return {
        "Account": identity.account_id,
        "Principal": identity.arn,
        "Cluster": target.cluster,
        "Connector": str(target.connector),
    }
