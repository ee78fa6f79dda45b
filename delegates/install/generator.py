"""Generator of specs with their warnings, and the zip download (R083-R142)."""

import io
import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from delegates.install import documents
from delegates.install.addresses import is_loopback
from delegates.install.commands import list_aws_commands
from delegates.install.documents import build_service_definition, build_task_definition
from delegates.install.linter import lint_spec
from delegates.install.plan import SpecPlan
from delegates.install.platforms import PLATFORMS
from delegates.install.specs import (
    INSTALL_GROUPS,
    TOKEN_FILE,
    DelegateSpecFiles,
    InvalidSpec,
    ShellCommand,
    SpecRequest,
    validate_request,
)
from guards.input_problems import InputProblem


def list_warnings(plan: SpecPlan) -> Iterator[str]:
    """Return the warnings, most urgent first."""
    yield from _list_address_warnings(plan)
    # A service of systemd runs a wheel, not an image.
    if plan.request.kind != "SHELL_SCRIPT":
        yield from _list_image_warnings(plan)
    if plan.request.kind != "ECS":
        yield from _list_platform_warnings(plan)
    else:
        yield from _list_placeholder_warnings(plan)
        yield from _list_hostname_warnings(plan)
        yield from _list_network_warnings(plan)
        yield from _list_role_warnings(plan)
        yield from _list_token_warnings(plan)
        yield from _list_size_warnings(plan)
    yield from _list_proxy_warnings(plan)


def _list_address_warnings(plan: SpecPlan) -> Iterator[str]:
    url = urlsplit(plan.request.manager_url)
    host = url.hostname or ""
    if is_loopback(host):
        reach = "" if plan.request.kind == "SHELL_SCRIPT" else ", and no container on it"
        yield (
            f"The files use {plan.request.manager_url}, which only this host reaches{reach}. Set PUBLIC_URL "
            "to an address that the delegate reaches."
        )
    elif url.scheme == "http":
        yield "The address of Slipway is not https: tokens and results are sent unencrypted."


def _list_image_warnings(plan: SpecPlan) -> Iterator[str]:
    image, source = plan.request.image, plan.source_image
    if plan.is_mirrored:
        yield f"Tasks pull {plan.image}: run the commands that mirror the image first."
    elif source.is_local:
        yield (
            f"The image {image} has no registry, so that no other machine can pull it. Push it to a registry "
            "such as Amazon ECR, and name it there."
        )
    if source.is_mutable:
        yield (
            f"The image {image} names no version: a restart may start another release. Use a tag with a "
            "version, or a digest."
        )
    account = plan.request.aws_account_id
    if account and source.ecr_account not in ("", account) and not plan.is_mirrored:
        yield f"The image is in account {source.ecr_account}: its repository policy must allow your account."


def _list_placeholder_warnings(plan: SpecPlan) -> Iterator[str]:
    request, holders = plan.request, plan.placeholders
    missing = []
    if not (request.token or request.hides_token) and request.secret.kind != "EXISTING":
        missing.append((holders.token, "the delegate token"))
    needs_account = plan.needs_execution_role or request.task_role
    if needs_account and not request.aws_account_id:
        missing.append((holders.aws_account, "your AWS account ID, 12 digits"))
    if request.is_awsvpc and not request.network.subnets:
        missing.append((holders.subnet, "the id of a subnet"))
    if request.is_awsvpc and not request.network.security_groups:
        missing.append((holders.security_group, "the id of a security group"))
    for holder, replacement in missing:
        yield f"Replace {holder} in the files by {replacement}."


def _list_hostname_warnings(plan: SpecPlan) -> Iterator[str]:
    if plan.request.hostname and not plan.hostname:
        where = "Fargate" if plan.request.is_fargate else f"the network mode {plan.request.network.mode}"
        yield (
            f"The hostname {plan.request.hostname} is omitted: ECS does not support it on {where}. The "
            f"delegate uses its name."
        )
    if not plan.preset.container and plan.container != plan.name:
        yield (
            f"The container is called {plan.container}, because ECS does not support the full delegate name."
        )


def _list_network_warnings(plan: SpecPlan) -> Iterator[str]:
    network = plan.request.network
    if not plan.request.is_awsvpc:
        if network.subnets or network.security_groups:
            yield "Subnets and security groups are omitted: on EC2 tasks use the network of their instance."
        if plan.takes_host_port and plan.request.desired_count > 1:
            yield "The task takes port 8080 of its instance: the cluster needs an instance for each task."
        return
    if plan.request.is_fargate and network.assign_public_ip:
        yield (
            "Tasks get a public IP: the subnets must be public, with a route to an internet gateway. In "
            "production prefer private subnets with a NAT gateway and no public IP."
        )
    else:
        yield "Tasks get no public IP: the subnets need a route to a NAT gateway."
    if len(network.subnets) == 1:
        yield "There is one subnet. Use two in different Availability Zones for high availability."


def _list_role_warnings(plan: SpecPlan) -> Iterator[str]:
    if plan.needs_execution_role:
        yield (
            f"Most accounts have the role {plan.request.execution_role} already. If AWS reports that a role "
            f"or policy exists, continue with the next command."
        )


def _list_token_warnings(plan: SpecPlan) -> Iterator[str]:
    secret = plan.request.secret
    if not plan.request.uses_secret:
        yield (
            "The token is plain text: everyone who can read the task definition can read it. In production "
            "store it in Secrets Manager."
        )
    if secret.kind == "CREATE":
        yield "Delete delegate-token.txt after creating the secret: it contains the token."
    if secret.kind == "EXISTING":
        _, _, _, region, account, *_ = secret.arn.split(":")
        if region != plan.region:
            yield f"The secret is in {region}, the tasks are in {plan.region}: ECS reads none across regions."
        if plan.request.aws_account_id and account != plan.request.aws_account_id:
            yield f"The secret belongs to account {account}: its policy and KMS key must allow your account."


def _list_size_warnings(plan: SpecPlan) -> Iterator[str]:
    if plan.request.flavour == "legacy":
        yield (
            "The legacy specification gives the container one CPU share and 2048 MiB, whatever the task has; "
            "the v3 flavour has plainer sizes."
            if not plan.request.memory_mib
            else "The legacy specification gives the container one CPU share of what its task has."
        )
    if not plan.request.is_fargate:
        yield (
            f"{plan.task_memory} MiB are for the delegate only. The instance needs more for the OS, Docker "
            f"and the ECS agent."
        )


def _list_platform_warnings(plan: SpecPlan) -> Iterator[str]:
    request = plan.request
    if not (request.token or request.hides_token):
        where = "command" if request.kind == "DOCKER" else "files"
        yield f"Replace {plan.placeholders.token} in the {where} by the delegate token."
    if request.kind == "DOCKER" and request.secret.kind != "PLAINTEXT":
        yield "Docker does not read from Secrets Manager: the token is part of the command."
    if request.kind == "KUBERNETES":
        yield (
            "Pods do not run as root, so that an instance runs scripts of one project only, unless the "
            "delegate is shared without isolation."
        )
        if request.ca:
            yield f"Mount the certificates into the pods at {request.ca.path}, for example from a ConfigMap."
    yield "The size is for the delegate only. The host needs more for the OS and its other programs."


def _list_proxy_warnings(plan: SpecPlan) -> Iterator[str]:
    if plan.request.proxy and plan.request.proxy.password:
        yield "The password of the proxy is plain text in the files."
    if plan.request.ca and plan.request.is_fargate:
        yield (
            f"Fargate cannot mount host files: put the certificates at {plan.request.ca.path} "
            "into your own image, or mount a file system there."
        )


# Sizes are the one thing that is only wrong together.
_SIZES = {"cpu": "cpu", "memory": "memory_mib"}


def write_spec(request: SpecRequest) -> DelegateSpecFiles:
    """Return all files and commands of a delegate. Raises `InvalidSpec`."""
    validate_request(request)
    plan = SpecPlan(request)
    return _write_ecs_spec(plan) if request.kind == "ECS" else _write_platform_spec(plan)


def render_json(document: Mapping[str, Any]) -> str:
    """Return a document as a file: ASCII alone, so that no terminal and no locale changes it."""
    return json.dumps(document, indent=2) + "\n"


def _write_platform_spec(plan: SpecPlan) -> DelegateSpecFiles:
    platform = PLATFORMS[plan.request.kind]
    return DelegateSpecFiles(
        platform.build_files(plan), tuple(platform.list_commands(plan)), tuple(list_warnings(plan))
    )


def _write_ecs_spec(plan: SpecPlan) -> DelegateSpecFiles:
    task, service = build_task_definition(plan), build_service_definition(plan)
    _check_sizes(task, service)
    files = {plan.preset.task_file: render_json(task)}
    if plan.has_service_file:
        files[plan.preset.service_file] = render_json(service)
    files |= _build_iam_files(plan)
    if plan.request.secret.kind == "CREATE":
        # Without a line end: all of the file becomes the secret.
        files[TOKEN_FILE] = plan.token
    return DelegateSpecFiles(files, tuple(list_aws_commands(plan)), tuple(list_warnings(plan)), task, service)


def _build_iam_files(plan: SpecPlan) -> dict[str, str]:
    files = {}
    if plan.needs_execution_role or plan.request.task_role:
        files[documents.TRUST_FILE] = render_json(documents.build_trust_policy())
    if plan.secrets:
        files[documents.SECRET_FILE] = render_json(documents.build_secret_policy(plan))
    if plan.request.task_role and plan.request.uses:
        return files | {documents.USES_FILE: render_json(documents.build_uses_policy(plan))}
    files[documents.POLICY_FILE] = render_json(documents.build_deploy_policy())
    files[documents.EXTENDED_FILE] = render_json(documents.build_extended_policy())
    return files


def _check_sizes(task: Mapping[str, Any], service: Mapping[str, Any]) -> None:
    findings = [
        finding for finding in lint_spec(task, service) if finding.place in _SIZES and not finding.is_warning
    ]
    if findings:
        raise InvalidSpec(
            [
                InputProblem(finding.message, finding.fix, path=(_SIZES[finding.place],))
                for finding in findings
            ]
        )


SCRIPT_FILE: Final = "commands.sh"
# The oldest time of the format: equal specs give equal bytes.
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)


def build_spec_zip(spec: DelegateSpecFiles) -> bytes:
    """Return the files and the script of a spec."""
    return build_zip({**spec.files, SCRIPT_FILE: render_script(spec.list_commands(*INSTALL_GROUPS))})


def build_zip(files: Mapping[str, str]) -> bytes:
    """Return a ZIP archive of files by name."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in sorted(files.items()):
            entry = zipfile.ZipInfo(name, _ZIP_EPOCH)
            # For its owner alone: a token may be in it.
            entry.external_attr = 0o600 << 16
            archive.writestr(entry, text, zipfile.ZIP_DEFLATED)
    return made.getvalue()


def render_script(commands: Iterable[ShellCommand]) -> str:
    """Return a script of commands with their titles; a failed command does not stop the script."""
    lines = [f"# {command.title}\n{command.command}\n" for command in commands]
    return "\n".join(["#!/bin/sh", "# Run these in the folder of the files.\n", *lines])
