"""A preview as the API and the pages show it."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from aws.errors import AwsError
from aws.iam import Decision
from aws.permissions import actions_for
from aws.policies import Policy, policies_for, purpose_of, title_of
from aws.preview import PlannedCall, PreviewStopped
from deployments.engine.masking import preview as masked
from deployments.preview.allowing import decided
from deployments.preview.comparing import compared, live_definition
from deployments.preview.running import Failure, PreviewedStep
from deployments.preview.words import sentence_of
from guards.masks import Mask
from steps.actions.work import SERVICE
from web.text_diff import Diff


@dataclass(frozen=True)
class ShownCall:
    """A write, with the values of environments hidden."""

    service: str
    operation: str
    params: dict[str, Any]
    change: str

    @property
    def text(self) -> str:
        """The parameters as indented JSON."""
        return json.dumps(self.params, indent=2, ensure_ascii=False, default=str)

    def to_json(self) -> dict[str, Any]:
        return {"service": self.service, "operation": self.operation, "params": self.params}


@dataclass(frozen=True)
class DefinitionDiff:
    """A task definition that would be registered, beside the one that runs; `old` is empty if none does."""

    old: str
    new: str
    diff: Diff

    @property
    def unified(self) -> str:
        return (
            f"--- {self.old or '/dev/null'}\n+++ {self.new}\n{self.diff.unified}" if self.diff.hunks else ""
        )


@dataclass(frozen=True)
class ShownStep:
    """What one step would do."""

    identifier: str
    name: str
    type: str
    stage: str
    calls: tuple[ShownCall, ...]
    diffs: tuple[DefinitionDiff, ...]
    permissions: tuple[str, ...]
    reads: tuple[str, ...]
    log: tuple[tuple[str, str], ...]
    warnings: tuple[str, ...]
    failure: Failure | None
    is_reached: bool
    skipped: str = ""
    """Why it would not run."""
    depends: tuple[str, ...] = ()
    """The conditions that only a run can answer."""

    @property
    def changes(self) -> list[str]:
        """What the writes come to, in words."""
        return [call.change for call in self.calls if call.change]

    def to_json(self) -> dict[str, Any]:
        return {
            "identifier": self.identifier,
            "name": self.name,
            "type": self.type,
            "stage": self.stage,
            "calls": [call.to_json() for call in self.calls],
            "diff": "\n".join(one.unified for one in self.diffs if one.unified),
            "permissions": list(self.permissions),
            "changes": self.changes,
            "reads": list(self.reads),
            "log": [{"level": level, "text": text} for level, text in self.log],
            "warnings": list(self.warnings),
            "failure": asdict(self.failure) if self.failure else None,
            "reached": self.is_reached,
            "skipped": self.skipped,
            "depends": list(self.depends),
        }


@dataclass(frozen=True)
class Permission:
    """An IAM action that is needed; `allowed` is what IAM says of it: allowed, denied or unknown."""

    action: str
    purpose: str
    policy: str
    allowed: str


@dataclass(frozen=True)
class ShownPreview:
    """What a run would do, and what its connectors' principals must be allowed."""

    artifact: dict[str, str]
    steps: tuple[ShownStep, ...]
    permissions: tuple[Permission, ...]
    unasked: tuple[str, ...] = ()
    """Why IAM says nothing of some of them."""

    @property
    def policies(self) -> tuple[Policy, ...]:
        """The policies that hold these permissions."""
        return policies_for(one.action for one in self.permissions)

    @property
    def is_complete(self) -> bool:
        """Whether no step would fail before its end, as far as a preview sees."""
        return all(step.failure is None for step in self.steps)

    def to_json(self) -> dict[str, Any]:
        return {
            "artifact": self.artifact,
            "complete": self.is_complete,
            "steps": [step.to_json() for step in self.steps],
            "permissions": [asdict(one) for one in self.permissions],
            "unasked": list(self.unasked),
            "policies": [one.identifier for one in self.policies],
        }


def shown_preview(artifact: dict[str, str], steps: Sequence[PreviewedStep]) -> ShownPreview:
    """All steps, and what IAM says of what they need."""
    shown = tuple(shown_step(step) for step in steps)
    decisions, unasked = decided(steps)
    needed = sorted({action for step in shown for action in step.permissions})
    permissions = tuple(
        Permission(one, purpose_of(one), title_of(one), decisions.get(one, Decision.UNKNOWN))
        for one in needed
    )
    return ShownPreview(artifact, shown, permissions, tuple(unasked))


def shown_step(step: PreviewedStep) -> ShownStep:
    """A step as it is shown; its task definitions are compared with what runs now."""
    diffs, unread = _diffs(step)
    said = [text for level, text in step.memory.lines if level == "warning"]
    return ShownStep(
        identifier=step.step.identifier,
        name=step.step.name,
        type=step.step.type,
        stage=step.step.stage.identifier,
        calls=tuple(_shown_call(call) for call in step.writes),
        diffs=diffs,
        permissions=tuple(
            actions_for(
                (call.service, call.operation, call.params) for call in step.calls if call.service != SERVICE
            )
        ),
        reads=tuple(sorted({f"{call.service}:{call.operation}" for call in step.calls if not call.is_write})),
        log=tuple(step.memory.lines),
        warnings=(*step.warnings, *said, *unread),
        failure=step.failure,
        is_reached=step.is_reached,
        skipped=step.verdict.skipped,
        depends=step.verdict.depends,
    )


def _shown_call(call: PlannedCall) -> ShownCall:
    return ShownCall(call.service, call.operation, masked(call.params, Mask()), sentence_of(call))


def _diffs(step: PreviewedStep) -> tuple[tuple[DefinitionDiff, ...], list[str]]:
    """What is registered beside what runs, and sentences about what could not be read."""
    found, unread = [], []
    for call in step.writes:
        if call.operation != "RegisterTaskDefinition":
            continue
        family = call.params["family"]
        try:
            live = live_definition(step, call.params)
        except (AwsError, PreviewStopped) as error:
            unread.append(f"Nothing is compared with the task definition {family} that runs now: {error}")
            continue
        old = f"{family}:{live.get('revision', '?')}" if live else ""
        found.append(DefinitionDiff(old, f"{family} (new)", compared(live, call.params)))
    return tuple(found), unread
