"""Behavior of container images, chosen by tag and name."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from sandbox.snapshot_rules import SNAPSHOT_RULES


@dataclass(frozen=True)
class ImageBehavior:
    """Seconds of a task in each state, and the end of its software."""

    name: str
    provisioning: float = 5
    pulling: float = 10
    activating: float = 5
    pullable: bool = True
    healthy: bool = True
    exits_after: float | None = None
    exit_code: int = 0
    # ECS's reason of the container.
    exit_reason: str = ""
    # The exit code after a stop by ECS: 137 for a killed container.
    stopped_code: int = 0
    # Seconds after which AWS takes the capacity back, as it does with Fargate Spot.
    interrupted_after: float | None = None
    lines: tuple[str, ...] = ()


DEFAULT_BEHAVIOR = ImageBehavior(
    "runs",
    lines=("starting", "configuration loaded", "listening on port {port}", "ready to serve requests"),
)
BEHAVIORS: Mapping[str, ImageBehavior] = {
    "crash": ImageBehavior(
        "crash",
        exits_after=8,
        exit_code=1,
        lines=(
            "starting",
            "configuration loaded",
            "ERROR could not connect to database at db.internal:5432: connection refused",
            "FATAL giving up after 3 attempts, exiting with code 1",
        ),
    ),
    # The agent retries the registry several times.
    "nopull": ImageBehavior("nopull", pulling=60, pullable=False),
    "sick": ImageBehavior(
        "sick",
        healthy=False,
        exits_after=25,
        exit_code=1,
        lines=("starting", "listening on port {port}", "WARN health check answers 503: not ready"),
    ),
    "oom": ImageBehavior(
        "oom",
        exits_after=8,
        exit_code=137,
        exit_reason="OutOfMemoryError: Container killed due to memory usage",
        lines=("starting", "loading the whole catalogue into memory"),
    ),
    # A process inside the machine killed it, and ECS does not know the reason.
    "killed": ImageBehavior("killed", exits_after=8, exit_code=137, lines=("starting", "working")),
    # Never healthy, and deaf to SIGTERM: ECS kills it.
    "stuck": ImageBehavior(
        "stuck",
        healthy=False,
        exits_after=25,
        exit_code=137,
        stopped_code=137,
        lines=("starting", "waiting for a lock"),
    ),
    # Healthy for long enough that ECS calls the deployment completed.
    "late": ImageBehavior(
        "late",
        exits_after=58,
        exit_code=1,
        lines=("starting", "listening on port {port}", "FATAL the lease of the licence ran out"),
    ),
    "spot": ImageBehavior(
        "spot",
        interrupted_after=15,
        stopped_code=143,
        lines=("starting", "listening on port {port}", "SIGTERM received"),
    ),
    "done": ImageBehavior(
        "done",
        exits_after=12,
        lines=("starting", "3 migrations to apply", "applied 3 of 3", "done"),
    ),
    "slow": ImageBehavior(
        "slow",
        pulling=60,
        activating=30,
        lines=("starting", "warming up caches, this takes a while", "listening on port {port}", "ready"),
    ),
}


def parse_tag(image: str) -> str:
    """Return the tag of an image reference, by default `latest`; a digest is not a tag."""
    name = image.partition("@")[0].rpartition("/")[2]
    return name.partition(":")[2] or "latest"


# Slipway's own image of the delegate, and the two that the documents name (R098, R108).
DELEGATE_IMAGES = ("slipway-delegate", "harness/delegate", "harness-public/harness/delegate")
# Command of such a container, by default the agent of this checkout; "off" starts nothing.
COMMAND_VARIABLE, OFF = "SLIPWAY_SANDBOX_DELEGATE_COMMAND", "off"
IMAGE_VARIABLES = ("SLIPWAY_DELEGATE_IMAGE", "SLIPWAY_LEGACY_DELEGATE_IMAGE")


def parse_name(image: str) -> str:
    """Return an image reference without tag and digest."""
    host, slash, name = image.partition("@")[0].rpartition("/")
    return f"{host}{slash}{name.partition(':')[0]}"


def is_delegate(image: str) -> bool:
    """Return whether a container of this image is a real local process: not where its tag has a meaning."""
    if parse_tag(image) in BEHAVIORS or os.environ.get(COMMAND_VARIABLE) == OFF:
        return False
    name = parse_name(image)
    own = [parse_name(os.environ.get(variable, "")) for variable in IMAGE_VARIABLES]
    return name in (*DELEGATE_IMAGES, *own) or name.endswith(tuple(f"/{d}" for d in DELEGATE_IMAGES))


def get_digest(image: str) -> str:
    """Return the digest of a pull: the one in the reference, or one derived from the name."""
    return image.partition("@")[2] or f"sha256:{sha256(image.encode()).hexdigest()}"


def get_behavior(image: str) -> ImageBehavior:
    name = SNAPSHOT_RULES.get_behavior_name(image) if SNAPSHOT_RULES.is_active else parse_tag(image)
    return BEHAVIORS.get(name, DEFAULT_BEHAVIOR)


def get_container_behavior(container: Mapping[str, Any]) -> ImageBehavior:
    """Return the behavior of a container: a command that ends with `exit 1` crashes any image that runs."""
    behavior = get_behavior(container["image"])
    command = container.get("command") or [""]
    may_crash = behavior is DEFAULT_BEHAVIOR and not SNAPSHOT_RULES.is_active
    crashes = may_crash and str(command[-1]).endswith("exit 1")
    return BEHAVIORS["crash"] if crashes else behavior


def get_task_behavior(containers: Iterable[Mapping[str, Any]], *, of_service: bool = True) -> ImageBehavior:
    """Return the behavior of the first essential container with a special one, or the default.

    In a filled account no tag says `done`, so a task outside of services ends by itself.
    """
    essential = [c for c in containers if c.get("essential", True)]
    behaviors = [get_container_behavior(c) for c in essential]
    default = BEHAVIORS["done"] if SNAPSHOT_RULES.is_active and not of_service else DEFAULT_BEHAVIOR
    return next((b for b in behaviors if b is not DEFAULT_BEHAVIOR), default)
