"""Work that is no AWS call, in a preview: files are fetched, scripts and requests only written down."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from aws.preview import PlannedCall, PreviewStopped
from deployments.engine.work import WorkHere, open_work
from deployments.models import StepExecution
from steps.actions.work import FETCH_FILES

if TYPE_CHECKING:
    from deployments.preview.memories import StageMemory


class WorkPlanned(Exception):
    """An action is over here in a preview: what its work comes to is known to a run alone."""


class PlannedWork:
    """Takes the place of delegates."""

    def __init__(self, shared: "StageMemory", step: StepExecution) -> None:
        self._shared = shared
        self._step = step

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Files that this Slipway itself fetches. Raises `WorkPlanned`, `PreviewStopped`, `AwsError`."""
        if operation != FETCH_FILES:
            self._shared.caller.made.append(PlannedCall(service, operation, dict(params)))
            raise WorkPlanned
        way = open_work(self._step, operation, params)
        if isinstance(way, WorkHere):
            return way.call(service, operation, params)
        raise PreviewStopped("The files are fetched by a delegate, which a preview does not ask.")
