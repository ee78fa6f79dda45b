"""A delegate as a container of Docker on a virtual machine: command, Compose file, newer image."""

import re
import shlex
from collections.abc import Iterator
from typing import Any, Final

import yaml

from delegates.specs.environment import variables
from delegates.specs.plan import Plan, plain_name
from delegates.specs.spec import Command

COMPOSE_FILE: Final = "compose.yaml"
# How long Docker waits for a delegate to finish what it does before it kills it.
STOP_SECONDS: Final = 120
DEFAULT_CPU, DEFAULT_MEMORY = 1024, 2048


def container_name(plan: Plan) -> str:
    """The delegate's name as Docker takes it: two characters at least."""
    name = plain_name(plan.name)
    return name if len(name) > 1 else f"delegate-{name}"


def run_command(plan: Plan) -> str:
    """`docker run` with every value one word of the shell.

    The hostname is said, since it identifies the instance and Docker would make one up each time (R024).
    """
    name = container_name(plan)
    words = ["docker", "run", "--detach", "--name", name, "--hostname", plan.hostname]
    words += ["--restart", "unless-stopped", "--stop-timeout", str(STOP_SECONDS)]
    words += ["--cpus", f"{_cpus(plan):g}", "--memory", f"{_memory(plan)}m"]
    for mount in _mounts(plan):
        words += ["--volume", mount]
    for variable, value in variables(plan):
        words += ["--env", f"{variable}={value}"]
    return shlex.join([*words, plan.request.image])


def commands(plan: Plan) -> Iterator[Command]:
    """Starting it, looking at it, replacing it."""
    name, image, run = container_name(plan), plan.request.image, run_command(plan)
    yield Command("Start the delegate", run, "create")
    yield Command("See whether it runs", shlex.join(["docker", "ps", "--filter", f"name={name}"]), "verify")
    yield Command("Fetch the newer image", shlex.join(["docker", "pull", image]), "update")
    yield Command("Let it finish, and stop it", shlex.join(["docker", "stop", name]), "update")
    yield Command("Remove the old container", shlex.join(["docker", "rm", name]), "update")
    yield Command("Start the delegate again", run, "update")
    yield Command("Read the delegate's log", shlex.join(["docker", "logs", "--follow", name]), "diagnose")


def compose_file(plan: Plan) -> str:
    """The same container for `docker compose up --detach`."""
    service: dict[str, Any] = {
        "image": plan.request.image,
        "container_name": container_name(plan),
        "hostname": plan.hostname,
        "restart": "unless-stopped",
        "stop_grace_period": f"{STOP_SECONDS}s",
        "cpus": f"{_cpus(plan):g}",
        "mem_limit": f"{_memory(plan)}m",
        # Compose would put variables of its own where a dollar sign stands alone.
        "environment": {name: value.replace("$", "$$") for name, value in variables(plan)},
    }
    if mounts := _mounts(plan):
        service["volumes"] = mounts
    key = re.sub(r"[^a-z0-9_-]", "-", container_name(plan).lower())
    return yaml.safe_dump({"services": {key: service}}, sort_keys=False, width=10_000)


def _cpus(plan: Plan) -> float:
    return (plan.request.cpu or DEFAULT_CPU) / 1024


def _memory(plan: Plan) -> int:
    return plan.request.memory_mib or DEFAULT_MEMORY


def _mounts(plan: Plan) -> list[str]:
    ca = plan.request.ca
    return [f"{ca.host_path}:{ca.path}:ro"] if ca and ca.host_path else []
