"""Outputs of a step: set in one phase, saved at its end with secrets masked."""

import json
from collections.abc import Mapping
from typing import Any

from deployments.engine.reconcile_context import ReconcileContext
from deployments.engine.steps.inputs import to_json
from deployments.models import StepExecution
from guards.masks import HIDDEN


class StepOutputs:
    """Outputs of a step, including those set in the current phase."""

    def __init__(self, reconcile_context: ReconcileContext, step: StepExecution) -> None:
        self._reconcile_context = reconcile_context
        self._step = step
        self._values: dict[str, Any] = {}
        self._secrets: dict[str, str] = {}

    def set_outputs(self, outputs: Mapping[str, Any]) -> None:
        """Set several outputs."""
        self._values.update(outputs)

    def set_output(self, name: str, value: str, *, is_secret: bool = False) -> None:
        """Set one output; a secret one is masked for people."""
        if is_secret:
            self._secrets[name] = value
            value = HIDDEN
        self._values[name] = value

    def get_output(self, name: str) -> Any:
        """Return an output, or None."""
        return self._values.get(name, self._step.all_outputs.get(name))

    def get_outputs(self) -> dict[str, Any]:
        """Return the outputs so far; secret outputs of earlier phases have their values."""
        return {**self._step.all_outputs, **self._values}

    def save(self) -> None:
        """Add the new outputs to the next commit."""
        if self._values:
            displayed = {name: self._mask_value(name, value) for name, value in self._values.items()}
            self._reconcile_context.change(self._step, outputs={**self._step.outputs, **displayed})
        if self._secrets:
            secrets = {**self._step.secret_output_values, **self._secrets}
            self._reconcile_context.change(self._step, secret_outputs=to_json(secrets))

    def discard(self) -> None:
        """Discard the outputs of the current phase."""
        self._values, self._secrets = {}, {}

    def _mask_value(self, name: str, value: Any) -> Any:
        """Return an output with secrets masked; only later steps read the value."""
        if name in self._secrets:
            return value
        text = value if isinstance(value, str) else json.dumps(value, default=str)
        masked = self._reconcile_context.mask.mask_text(text)
        if masked == text:
            return value
        self._secrets[name] = text
        return masked
