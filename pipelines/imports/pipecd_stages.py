"""Stages of a PipeCD pipeline, converted to steps.

Stages: https://pipecd.dev/docs/user-guide/configuration-reference/#stageoptions
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from catalog.manifests.documents import Document
from pipelines.imports.projects import (
    BLUE_GREEN,
    CANARY,
    NATIVE,
    ROLLING,
    build_strategy_steps,
    get_step_type,
    parse_go_duration,
)
from pipelines.imports.source_files import ImportNotice, get_line, refuse
from steps.strategies.registry import StepDocument, StrategySteps, build_step_document

_PATH: Final = ("spec", "pipeline", "stages")
_SYNC, _PRIMARY = "ECS_SYNC", "ECS_PRIMARY_ROLLOUT"
_CANARY, _CLEAN, _ROUTING = "ECS_CANARY_ROLLOUT", "ECS_CANARY_CLEAN", "ECS_TRAFFIC_ROUTING"
_WAIT, _APPROVAL = "WAIT", "WAIT_APPROVAL"
_ADVICE: Final[Mapping[str, str]] = {
    # PipeCD queries Prometheus, Datadog, Stackdriver and URLs, none of which has the metrics of CloudWatch.
    "ANALYSIS": "its queries have no equal; add a Verify step here, with alarms or metrics of CloudWatch",
    "SCRIPT_RUN": "add a Shell Script step here with the commands",
    "CUSTOM_SYNC": "add a Shell Script step here with the commands",
}
_ALL_TRAFFIC: Final = 100
_MOST_STAGES: Final = 100
_READ_STAGE_KEYS: Final = ("name", "with", "id", "desc")
_READ_OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    _CANARY: ("scale",),
    _ROUTING: ("canary", "primary"),
    _WAIT: ("duration",),
    _APPROVAL: ("approvers", "minApproverNum", "timeout"),
}


def list_stages(config: Document) -> list[Mapping[str, Any]]:
    """Return the stages of an application; none for a quick sync. Raises `ImportRefused`."""
    pipeline = config.value["spec"].get("pipeline") or {}
    stages = pipeline.get("stages") if isinstance(pipeline, Mapping) else None
    rows = stages if isinstance(stages, list) else []
    if len(rows) > _MOST_STAGES:
        refuse(
            config.name, get_line(config, _PATH), f"{len(rows)} stages, at most {_MOST_STAGES} are imported"
        )
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping) or not isinstance(row.get("name"), str):
            refuse(config.name, get_line(config, (*_PATH, number)), "a stage must have a name")
    return rows


def routes_traffic(config: Document) -> bool:
    """Return whether a stage gives traffic to the canary, which needs two services with target groups."""
    return any(
        row["name"] == _ROUTING and _get_canary_share(_get_options(row)) > 0 for row in list_stages(config)
    )


def build_steps(
    config: Document, approver_group: str, *, is_native: bool
) -> tuple[StrategySteps, list[ImportNotice]]:
    """Return the steps of the stages, and what has no equal. Raises `ImportRefused`.

    `is_native` for a service definition whose strategy ECS itself runs.
    """
    stages = list_stages(config)
    names = {row["name"] for row in stages}
    if is_native:
        base = build_strategy_steps(NATIVE)
    elif routes_traffic(config):
        base = build_strategy_steps(BLUE_GREEN)
    else:
        base = build_strategy_steps(CANARY if _CANARY in names else ROLLING)
    conversion = _StageConversion(config, base, approver_group)
    for number, row in enumerate(stages):
        conversion.convert(number, row)
    conversion.finish()
    return StrategySteps(tuple(conversion.steps), base.rollback_steps), conversion.notices


@dataclass
class _StageConversion:
    """Conversion of one list of stages; the steps of the strategy are each used once."""

    config: Document
    base: StrategySteps
    approver_group: str
    steps: list[StepDocument] = field(default_factory=list)
    notices: list[ImportNotice] = field(default_factory=list)

    def convert(self, number: int, row: Mapping[str, Any]) -> None:
        name, options = row["name"], _get_options(row)
        for message in _list_unread(name, row, options):
            self._add_notice(number, message)
        if name == _WAIT:
            self._add_wait(number, options)
        elif name == _APPROVAL:
            self._add_approval(number, options)
        elif name in (_SYNC, _PRIMARY, _CANARY, _CLEAN, _ROUTING):
            self._convert_rollout(number, name, options)
        else:
            advice = _ADVICE.get(name, "has no equal in Slipway and is left out")
            self._add_notice(number, f"{name[:60]}: {advice}")

    def finish(self) -> None:
        """Add the steps of the strategy that no stage stood for: its first step at the start."""
        for number, step in enumerate(self.base.steps):
            if not self._has(get_step_type(step)):
                self.steps.insert(len(self.steps) if number else 0, step)

    def _convert_rollout(self, number: int, name: str, options: Mapping[str, Any]) -> None:
        if name == _CANARY:
            self._add(number, name, "EcsCanaryDeploy", "EcsBlueGreenCreateService", "EcsNativeDeploy")
            if options.get("scale", _ALL_TRAFFIC) != _ALL_TRAFFIC:
                tasks = "one task" if self._has("EcsCanaryDeploy") else "as many tasks as the service has"
                self._add_notice(number, f"{name}: scale is not imported; the step starts {tasks}")
        elif name == _ROUTING:
            self._route(number, _get_canary_share(options))
        elif name == _CLEAN:
            self._add(number, name, "EcsCanaryDelete")
        else:
            self._add(number, name, "EcsRollingDeploy", "EcsBlueGreenSwapTargetGroups", "EcsNativeDeploy")

    def _route(self, number: int, share: int) -> None:
        """Shift a part of the traffic, or swap for all of it."""
        if share >= _ALL_TRAFFIC:
            self._add(number, _ROUTING, "EcsBlueGreenSwapTargetGroups")
        elif share <= 0:
            # PipeCD returns to the primary, which then has the new version: after a swap nothing is left.
            self._add_notice(
                number, f"{_ROUTING}: not needed, all traffic goes to the new version by the swap"
            )
        elif not self._has("EcsBlueGreenCreateService") or self._has("EcsBlueGreenSwapTargetGroups"):
            self._add_notice(
                number, f"{_ROUTING}: {share} % is left out, because no second version runs here"
            )
        else:
            step = {"weight": share}
            identifier, title = f"shift_{number + 1}", f"Shift {share} % of traffic"
            self.steps.append(
                build_step_document("EcsBlueGreenTrafficShift", identifier, title, steps=[step])
            )

    def _add(self, number: int, name: str, *types: str) -> None:
        """Add the step of the strategy that has one of the types, unless it is there already."""
        step = next((step for step in self.base.steps if get_step_type(step) in types), None)
        if step is None:
            self._add_notice(number, f"{name}: not needed, the other steps do it")
        elif self._has(get_step_type(step)):
            self._add_notice(number, f"{name}: not needed, the step {_get_title(step)} has done it")
        else:
            self.steps.append(step)

    def _add_wait(self, number: int, options: Mapping[str, Any]) -> None:
        seconds = parse_go_duration(options.get("duration"))
        if not seconds:
            refuse(self.config.name, self._get_line(number), "WAIT needs a duration such as 5m")
        self.steps.append(build_step_document("Wait", f"wait_{number + 1}", "Wait", duration=f"{seconds}s"))

    def _add_approval(self, number: int, options: Mapping[str, Any]) -> None:
        line = self._get_line(number)
        if not self.approver_group:
            message = "WAIT_APPROVAL: enter the user group of Slipway that approves"
            refuse(self.config.name, line, message)
        count = options.get("minApproverNum", 1)
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            refuse(self.config.name, line, "minApproverNum must be a number from 1")
        approvers = {"userGroups": [self.approver_group], "minimumCount": count}
        step = build_step_document(
            "HarnessApproval", f"approval_{number + 1}", "Approval", approvers=approvers
        )
        if options.get("approvers"):
            message = (
                f"WAIT_APPROVAL: any member of {self.approver_group} approves, not the people listed here"
            )
            self._add_notice(number, message)
        self.steps.append(step)

    def _has(self, type_: str) -> bool:
        return any(get_step_type(step) == type_ for step in self.steps)

    def _get_line(self, number: int) -> int:
        return get_line(self.config, (*_PATH, number))

    def _add_notice(self, number: int, message: str) -> None:
        self.notices.append(ImportNotice(self.config.name, self._get_line(number), message))


def _get_options(row: Mapping[str, Any]) -> Mapping[str, Any]:
    options = row.get("with")
    return options if isinstance(options, Mapping) else {}


def _get_canary_share(options: Mapping[str, Any]) -> int:
    """Return the percent of traffic for the canary; `primary` counts before `canary`, as in PipeCD."""
    primary, canary = (_parse_percent(options.get(key)) for key in ("primary", "canary"))
    if 0 < primary <= _ALL_TRAFFIC:
        return _ALL_TRAFFIC - primary
    return canary if 0 < canary <= _ALL_TRAFFIC else 0


def _parse_percent(value: Any) -> int:
    """Return a percentage written as 20 or "20%"; 0 for anything else."""
    text = str(value).removesuffix("%") if isinstance(value, int | str) else ""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 3 else 0


def _list_unread(name: str, row: Mapping[str, Any], options: Mapping[str, Any]) -> Iterator[str]:
    """Yield the settings of a stage that the import does not read."""
    keys = [key for key in row if key not in _READ_STAGE_KEYS]
    keys += [f"with.{key}" for key in options if name in _READ_OPTIONS and key not in _READ_OPTIONS[name]]
    if name == _APPROVAL and "timeout" in options:
        keys.append("with.timeout")
    for key in keys:
        yield f"{name[:60]}: {key[:60]} is not imported"


def _get_title(document: StepDocument) -> str:
    step = document["step"]
    return str(step["name"]) if isinstance(step, dict) else ""
