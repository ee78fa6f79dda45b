"""Platforms of delegates outside of ECS, each with its files and commands."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from delegates.install import containers, kubernetes, shell
from delegates.install.plan import SpecPlan
from delegates.install.specs import Kind, ShellCommand


@dataclass(frozen=True)
class Platform:
    """Generators of the files by name and of the commands; `symptom` is the first suspect of a silence."""

    build_files: Callable[[SpecPlan], dict[str, str]]
    list_commands: Callable[[SpecPlan], Iterable[ShellCommand]]
    symptom: str


def _build_docker_files(plan: SpecPlan) -> dict[str, str]:
    return {containers.COMPOSE_FILE: containers.render_compose_file(plan)}


PLATFORMS: Final[Mapping[Kind, Platform]] = {
    "DOCKER": Platform(_build_docker_files, containers.list_docker_commands, "Container not running"),
    "COMPOSE": Platform(
        containers.build_compose_files, containers.list_compose_commands, "Container not running"
    ),
    "KUBERNETES": Platform(
        kubernetes.build_manifest_files, kubernetes.list_kubernetes_commands, "Pod not running"
    ),
    "SHELL_SCRIPT": Platform(shell.build_shell_files, shell.list_shell_commands, "Service not running"),
}


def list_diagnose_commands(plan: SpecPlan) -> tuple[ShellCommand, ...]:
    """Return the commands that show why a delegate outside of ECS does not run."""
    commands = PLATFORMS[plan.request.kind].list_commands(plan)
    return tuple(command for command in commands if command.group in ("verify", "diagnose"))
