"""Projects as read from the files of another tool, before anything is created."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pipelines.imports.definitions import EcsDefinitions
from pipelines.imports.source_files import ImportNotice
from steps.strategies.blue_green import LISTENER_VARIABLES
from steps.strategies.registry import StepDocument, StrategySteps, get_strategies

ROLLING, CANARY, BLUE_GREEN, NATIVE = "Rolling", "Canary", "BlueGreen", "Native"
_RUNTIME_INPUT: Final = "<+input>"
# Empty means the default rule of the listener.
_OPTIONAL_INPUT: Final = "<+input>.default()"
_DURATION_PART: Final = re.compile(r"(\d{1,6})(h|m|s)")
_DURATION: Final = re.compile(r"(?:\d{1,6}(?:h|m|s))+")
_UNIT_SECONDS: Final = {"h": 3600, "m": 60, "s": 1}
_CREATE_STEP: Final = "EcsBlueGreenCreateService"


@dataclass(frozen=True)
class ImportedProject:
    """One service, its place in AWS, and the steps that deploy it."""

    tool: str
    region: str
    cluster: str
    definitions: EcsDefinitions
    steps: StrategySteps
    variables: Mapping[str, str] = field(default_factory=dict)
    """Variables of the service."""
    inputs: Sequence[str] = ()
    """Environment variables that each run asks for."""
    notices: tuple[ImportNotice, ...] = ()

    @property
    def pipeline_variables(self) -> dict[str, str]:
        """Return the inputs of the pipeline; listeners are in no file of another tool."""
        variables = dict.fromkeys(self.inputs, _RUNTIME_INPUT)
        if any(get_step_type(step) == _CREATE_STEP for step in self.steps.steps):
            variables |= {
                name: _OPTIONAL_INPUT if name.endswith("RuleArn") else _RUNTIME_INPUT
                for name in LISTENER_VARIABLES
            }
        return variables


def build_strategy_steps(strategy: str, timeout: str = "") -> StrategySteps:
    """Return the steps of a strategy, each with the timeout, if there is one."""
    chosen = get_strategies()[strategy]()
    steps = tuple(_use_pipeline_listeners(step) for step in chosen.steps)
    return StrategySteps(tuple(set_timeout(step, timeout) for step in steps), chosen.rollback_steps)


def get_step_type(document: StepDocument) -> str:
    """Return the type of a step document."""
    return str(_get_body(document)["type"])


def set_timeout(document: StepDocument, timeout: str) -> StepDocument:
    """Return a step with a timeout such as 600s; unchanged without one."""
    return {"step": {**_get_body(document), "timeout": timeout}} if timeout else document


def parse_go_duration(value: Any) -> int:
    """Return the seconds of a duration such as 10m or 1h30m; 0 for anything else."""
    if not isinstance(value, str) or len(value) > 40 or not _DURATION.fullmatch(value):
        return 0
    return sum(int(number) * _UNIT_SECONDS[unit] for number, unit in _DURATION_PART.findall(value))


def _use_pipeline_listeners(document: StepDocument) -> StepDocument:
    """Return a create step whose listeners are variables of the pipeline; other steps unchanged."""
    if get_step_type(document) != _CREATE_STEP:
        return document
    spec = {name: f"<+pipeline.variables.{name}>" for name in LISTENER_VARIABLES}
    return {"step": {**_get_body(document), "spec": spec}}


def _get_body(document: StepDocument) -> dict[str, Any]:
    body = document["step"]
    if not isinstance(body, dict):
        raise TypeError("A step document has a mapping under step.")
    return body
