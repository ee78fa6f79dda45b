"""Writes a delegate's spec: a pure function from what somebody wants to files and commands (R083–R142)."""

import json
from collections.abc import Mapping
from typing import Any

from delegates.specs import docker, iam
from delegates.specs.commands import TOKEN_FILE, commands
from delegates.specs.definitions import service_definition, task_definition
from delegates.specs.linter import lint
from delegates.specs.plan import Plan
from delegates.specs.request import BadSpec, SpecRequest, check
from delegates.specs.spec import Spec
from delegates.specs.warnings import warnings
from guards.fault import Fault

# Sizes are the one thing that is only wrong together.
_SIZES = {"cpu": "cpu", "memory": "memory_mib"}


def write_spec(request: SpecRequest) -> Spec:
    """Make every file and command of a delegate. Raises `BadSpec` where a value makes no sense."""
    check(request)
    plan = Plan(request)
    return _docker(plan) if request.kind == "DOCKER" else _ecs(plan)


def as_json(document: Mapping[str, Any]) -> str:
    """A document as a file: ASCII alone, so that no terminal and no locale changes it."""
    return json.dumps(document, indent=2) + "\n"


def _docker(plan: Plan) -> Spec:
    files = {docker.COMPOSE_FILE: docker.compose_file(plan)}
    return Spec(files, tuple(docker.commands(plan)), tuple(warnings(plan)))


def _ecs(plan: Plan) -> Spec:
    task, service = task_definition(plan), service_definition(plan)
    _check_sizes(task, service)
    files = {plan.preset.task_file: as_json(task)}
    if plan.has_service_file:
        files[plan.preset.service_file] = as_json(service)
    files |= _iam_files(plan)
    if plan.request.secret.kind == "CREATE":
        # Without a line end: all of the file becomes the secret.
        files[TOKEN_FILE] = plan.token
    return Spec(files, tuple(commands(plan)), tuple(warnings(plan)), task, service)


def _iam_files(plan: Plan) -> dict[str, str]:
    files = {}
    if plan.needs_execution_role or plan.request.task_role:
        files[iam.TRUST_FILE] = as_json(iam.trust_policy())
    if plan.request.uses_secret:
        files[iam.SECRET_FILE] = as_json(iam.secret_policy(plan))
    files[iam.POLICY_FILE] = as_json(iam.deploy_policy())
    files[iam.EXTENDED_FILE] = as_json(iam.extended_policy())
    return files


def _check_sizes(task: Mapping[str, Any], service: Mapping[str, Any]) -> None:
    found = [one for one in lint(task, service) if one.place in _SIZES and not one.is_warning]
    if found:
        raise BadSpec([Fault(one.message, one.fix, path=(_SIZES[one.place],)) for one in found])
