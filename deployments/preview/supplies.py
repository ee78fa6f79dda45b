"""What a preview supplies its actions with: as it lies there now, kept in memory alone."""

from collections.abc import Callable, Mapping
from typing import Any

from catalog.manifests import fetching
from deployments.engine import pinning, sources
from deployments.kept_texts import texts_by_path
from deployments.preview.memories import StageMemory
from steps.actions.supplies import Loaded, Source, Template
from steps.actions.work import FETCH_FILES, SERVICE


class PreviewSupplies:
    """The protocol `Supplies`; `own` is what the step brings itself, `known` what expressions may name."""

    def __init__(
        self, shared: StageMemory, own: list[dict[str, Any]], known: Callable[[], Mapping[str, Any]]
    ) -> None:
        self._shared = shared
        self._own = own
        self._known = known

    def sources(self, kind: str) -> tuple[Source, ...]:
        return sources.listed(self._shared.stage, kind, self._own)

    def load(self, kind: str) -> Loaded:
        return self.load_all(kind)[0]

    def load_all(self, kind: str) -> tuple[Loaded, ...]:
        self._bring_in(kind)
        shared = self._shared
        return sources.load_all(shared.execution, shared.stage, kind, self._known(), self._own)

    def template(self, kind: str) -> Template:
        self._bring_in(kind)
        shared = self._shared
        return sources.load_template(shared.execution, shared.stage, kind, self._known(), self._own)

    def program_files(self, kind: str) -> dict[str, str]:
        self._bring_in(kind)
        return texts_by_path(self._own, kind)

    def _bring_in(self, kind: str) -> None:
        """Fetch the manifests that lie elsewhere, as they are now; a run pins them when it comes there."""
        execution, stage = self._shared.execution, self._shared.stage
        if pinning.is_wanting(execution.artifact):
            execution.artifact = pinning.pinned(execution.artifact, self._errand)
        rows = self._own if sources.brings(self._own, kind) else stage.sources
        if not (groups := fetching.groups_of(rows, kind)):
            return
        known = {**sources.known_values(execution, stage), **self._known()}
        for number, row in fetching.brought_in(
            rows, groups, known, lambda asked: self._errand(FETCH_FILES, asked)
        ):
            rows[number] = row

    def _errand(self, operation: str, params: dict[str, Any]) -> dict[str, Any]:
        # No call of the run's connector, so none that the preview shows.
        return self._shared.caller.caller.call(SERVICE, operation, params)
