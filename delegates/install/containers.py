"""Files and commands of delegates in Docker and Docker Compose."""

import re
import shlex
from collections.abc import Iterator
from typing import Any, Final

import yaml

from delegates.install.documents import list_environment_variables
from delegates.install.plan import SpecPlan, build_ecs_name
from delegates.install.specs import FARGATE_STOP_SECONDS, TOKEN_FILE, ShellCommand

COMPOSE_FILE: Final = "compose.yaml"
_HOME: Final = "/var/lib/slipway-delegate"
_TOKEN_SECRET: Final = "delegate-token"  # noqa: S105
DEFAULT_CPU, DEFAULT_MEMORY = 1024, 2048


def build_container_name(plan: SpecPlan) -> str:
    """Return the delegate's name as Docker takes it: two characters at least."""
    name = build_ecs_name(plan.name)
    return name if len(name) > 1 else f"delegate-{name}"


def build_run_command(plan: SpecPlan) -> str:
    """Return the `docker run` command with every value quoted.

    The host name is explicit because it identifies the instance; Docker would generate a new one (R024). A
    volume keeps its id and key pair over a new container.
    """
    name = build_container_name(plan)
    words = ["docker", "run", "--detach", "--name", name, "--hostname", plan.hostname]
    words += ["--restart", "unless-stopped", "--stop-timeout", str(get_stop_seconds(plan))]
    words += ["--cpus", f"{get_cpus(plan):g}", "--memory", f"{get_memory(plan)}m"]
    for mount in (f"{name}-home:{_HOME}", *_list_mounts(plan)):
        words += ["--volume", mount]
    for variable, value in list_environment_variables(plan):
        words += ["--env", f"{variable}={value}"]
    return shlex.join([*words, plan.request.image])


def list_docker_commands(plan: SpecPlan) -> Iterator[ShellCommand]:
    """Return the commands to start, inspect and replace the container."""
    name, image, run = build_container_name(plan), plan.request.image, build_run_command(plan)
    yield ShellCommand("Start the delegate", run, "create")
    yield ShellCommand(
        "Check that it runs", shlex.join(["docker", "ps", "--filter", f"name={name}"]), "verify"
    )
    yield ShellCommand("Pull the new image", shlex.join(["docker", "pull", image]), "update")
    yield ShellCommand("Drain and stop it", shlex.join(["docker", "stop", name]), "update")
    yield ShellCommand("Remove the old container", shlex.join(["docker", "rm", name]), "update")
    yield ShellCommand("Start the delegate again", run, "update")
    yield ShellCommand(
        "Read the delegate's log", shlex.join(["docker", "logs", "--follow", name]), "diagnose"
    )


def render_compose_file(plan: SpecPlan) -> str:
    """Return the container as a file for `docker compose up --detach`."""
    service = _build_compose_service(plan)
    document: dict[str, Any] = {"services": {build_compose_key(plan): service}, "volumes": {"home": {}}}
    if plan.request.kind == "COMPOSE":
        service["environment"]["HARNESS_TOKEN_FILE"] = f"/run/secrets/{_TOKEN_SECRET}"
        service["secrets"] = [_TOKEN_SECRET]
        document["secrets"] = {_TOKEN_SECRET: {"file": f"./{TOKEN_FILE}"}}
    return yaml.safe_dump(document, sort_keys=False, width=10_000)


def _build_compose_service(plan: SpecPlan) -> dict[str, Any]:
    return {
        "image": plan.request.image,
        "container_name": build_container_name(plan),
        "hostname": plan.hostname,
        "restart": "unless-stopped",
        "stop_grace_period": f"{get_stop_seconds(plan)}s",
        "cpus": f"{get_cpus(plan):g}",
        "mem_limit": f"{get_memory(plan)}m",
        # Compose would substitute variables at a single dollar sign.
        "environment": {name: value.replace("$", "$$") for name, value in list_environment_variables(plan)},
        "volumes": [f"home:{_HOME}", *_list_mounts(plan)],
    }


def build_compose_key(plan: SpecPlan) -> str:
    """Return the delegate's name as Compose takes it for a service."""
    return re.sub(r"[^a-z0-9_-]", "-", build_container_name(plan).lower())


def build_compose_files(plan: SpecPlan) -> dict[str, str]:
    """Return the file of Compose and the secret that it mounts."""
    return {COMPOSE_FILE: render_compose_file(plan), TOKEN_FILE: plan.token}


def list_compose_commands(plan: SpecPlan) -> Iterator[ShellCommand]:
    """Return the commands to start, inspect and replace the container of Compose."""
    start = "docker compose up --detach --wait"
    yield ShellCommand("Start the delegate", start, "create")
    yield ShellCommand("Check that it runs", "docker compose ps", "verify")
    yield ShellCommand("Pull the new image", "docker compose pull", "update")
    yield ShellCommand("Replace the container", start, "update")
    yield ShellCommand("Read the delegate's log", "docker compose logs --follow --tail 100", "diagnose")


def get_stop_seconds(plan: SpecPlan) -> int:
    """Return the time that a platform gives a delegate to finish before it kills it."""
    return plan.request.stop_seconds or FARGATE_STOP_SECONDS


def get_cpus(plan: SpecPlan) -> float:
    """Return the vCPUs of an instance."""
    return (plan.request.cpu or DEFAULT_CPU) / 1024


def get_memory(plan: SpecPlan) -> int:
    """Return the MiB of an instance."""
    return plan.request.memory_mib or DEFAULT_MEMORY


def _list_mounts(plan: SpecPlan) -> list[str]:
    ca = plan.request.ca
    return [f"{ca.host_path}:{ca.path}:ro"] if ca and ca.host_path else []
