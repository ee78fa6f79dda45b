"""Every command of a delegate's spec is one that the AWS CLI knows; together they make its service."""

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from delegates.install import (
    ShellCommand,
    SpecNetwork,
    SpecRequest,
    TokenSecret,
    list_disconnect_causes,
    list_likely_causes,
    write_spec,
)
from tests.clients.client_programs import Program
from tests.contract.endpoint import Aws
from tests.delegates.install.spec_variants import MATRIX, build_request
from tests.fixtures.processes import wait_until

# Of these each is made in the sandbox; what they are called keeps them apart.
MADE = {
    "legacy-ec2": build_request("legacy", "EC2", service="legacy-ec2", cluster="c1"),
    "v3-ec2": build_request("v3", "EC2", service="v3-ec2", cluster="c2"),
    "v3-fargate": build_request(
        "v3",
        "FARGATE",
        service="v3-fargate",
        cluster="c3",
        task_role="delegate-work",
        secret=TokenSecret("CREATE"),
    ),
    "legacy-fargate": build_request("legacy", "FARGATE", service="legacy-fargate", region="us-east-1"),
}


def shape(command: ShellCommand) -> tuple[str, ...]:
    """Return the operation and flags of a command; every command takes --region."""
    words = shlex.split(command.command)
    return (*words[1:3], *(word for word in words[3:] if word.startswith("--") and word != "--region"))


def adapt_to_sandbox(request: SpecRequest, aws: Aws) -> SpecRequest:
    network = SpecNetwork(aws.endpoint.subnets, (aws.endpoint.security_group,))
    # Its software ends after some seconds, so that there is a stopped task to ask about.
    # The usual role is there already.
    role = f"execution-of-{request.service}"
    return replace(
        request, network=network, execution_role=role, image="public.ecr.aws/docker/library/busybox:crash"
    )


@pytest.fixture
def shell(cli: Program, tmp_path: Path) -> Program:
    """A shell in the folder of the files, where `aws` is the right one and talks to the sandbox."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "aws").write_text(f'#!/bin/sh\nexec {shlex.join(cli.command)} "$@"\n')
    (folder / "aws").chmod(0o755)
    path = f"{folder}:{cli.environment['PATH']}"
    within = ("sh", "-c", 'cd "$HOME" && eval "$1"', "sh")
    return Program(within, {**cli.environment, "PATH": path})


@pytest.mark.parametrize("name", MADE)
def test_its_commands_make_the_service_of_a_delegate_and_tell_about_it(
    name: str, aws: Aws, shell: Program, tmp_path: Path
) -> None:
    request = adapt_to_sandbox(MADE[name], aws)
    spec = write_spec(request)
    for file, text in spec.files.items():
        (tmp_path / file).write_text(text)
    for entry in spec.list_commands("find", "permissions", "create", "verify", "update"):
        shell(entry.command)
    cluster, service = spec.service["cluster"], spec.service["serviceName"]
    (ecs_service,) = aws.ecs.describe_services(cluster=cluster, services=[service])["services"]
    assert ecs_service["desiredCount"] == 1
    assert ecs_service["taskDefinition"].endswith(f"/{spec.service['taskDefinition']}:2")
    if request.launch_type == "FARGATE":
        stopped = {"cluster": cluster, "serviceName": service, "desiredStatus": "STOPPED"}
        wait_until(lambda: aws.ecs.list_tasks(**stopped)["taskArns"], "a stopped task")
        for entry in spec.list_commands("diagnose"):
            shell(entry.command.replace(" --follow", ""))


def test_those_commands_are_all_that_a_spec_can_hold() -> None:
    shapes = {shape(entry) for request in MADE.values() for entry in write_spec(request).commands}
    assert {shape(entry) for request in MATRIX for entry in write_spec(request).commands} <= shapes


def test_what_tells_why_a_delegate_stays_away_are_commands_that_the_cli_knows(shell: Program) -> None:
    shapes = {shape(entry) for request in MADE.values() for entry in write_spec(request).commands}
    commands_by_shape = {
        shape(entry): entry.command for request in MATRIX for entry in commands_of_causes(request)
    }
    further = [command for pattern, command in commands_by_shape.items() if pattern not in shapes]
    assert len(further) > 3
    for command in further:
        # Checks the flags and asks nobody.
        shell(f"{command} --generate-cli-skeleton input")


def commands_of_causes(request: SpecRequest) -> list[ShellCommand]:
    causes = [*list_likely_causes(request), *list_disconnect_causes(request)]
    return [command for cause in causes for command in cause.commands]
