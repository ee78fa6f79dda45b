"""What the actions of a step are supplied with: fetched from where it lies once, pinned for the run."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from catalog.manifests import fetching
from deployments.engine import pinning, sources
from deployments.kept_texts import texts_by_path
from deployments.models import StepExecution
from pipelines.definition.step_manifests import frozen_sources
from steps.actions.supplies import Loaded, Source, Template
from steps.actions.work import FETCH_FILES, SERVICE

if TYPE_CHECKING:
    from deployments.engine.rollout import EngineRollout

Row = dict[str, Any]


class EngineSupplies:
    """The manifests, programs and the image of one run of one phase; what it pins is written with that."""

    def __init__(self, rollout: "EngineRollout") -> None:
        self._rollout = rollout
        self._shared = rollout.shared
        self._begun: set[str] = set()

    def sources(self, kind: str) -> tuple[Source, ...]:
        return sources.listed(self._shared.stage, kind, self._own)

    def load(self, kind: str) -> Loaded:
        return self.load_all(kind)[0]

    def load_all(self, kind: str) -> tuple[Loaded, ...]:
        self._bring_in(kind)
        self._tell_of(kind)
        learned = self._rollout.learned()
        shared = self._shared
        return sources.load_all(shared.execution, shared.stage, kind, learned, self._own, self._steps)

    def template(self, kind: str) -> Template:
        self._fetch_in(kind)
        self._tell_of(kind)
        learned = self._rollout.learned()
        shared = self._shared
        return sources.load_template(shared.execution, shared.stage, kind, learned, self._own, self._steps)

    def program_files(self, kind: str) -> dict[str, str]:
        self._bring_in(kind)
        self._tell_of(kind)
        return texts_by_path(self._own, kind)

    @property
    def _own(self) -> tuple[Row, ...]:
        """What the step brings itself."""
        return frozen_sources(self._rollout.step.type, self._rollout.step.spec)

    @property
    def _steps(self) -> list[StepExecution]:
        return self._shared.rows.steps_until(self._shared.stage)

    def _bring_in(self, kind: str) -> None:
        """Settle the image, and fetch what lies elsewhere; what was fetched before stays as it is."""
        self._pin_artifact()
        self._fetch_in(kind)

    def _rows(self, kind: str) -> Sequence[Row]:
        """Where manifests of a kind are looked for: what a step brings itself goes before the service's."""
        return self._own if sources.brings(self._own, kind) else self._shared.stage.sources

    def _fetch_in(self, kind: str) -> None:
        is_own = sources.brings(self._own, kind)
        rows = self._rows(kind)
        if not is_own:
            for number, row in fetching.from_file_store(rows, kind, self._shared.execution.scope):
                self._shared.pin(number, row)
        name = self._name("fetches", kind)
        groups = self._rollout.recall(name) or fetching.groups_of(rows, kind)
        if not groups or not self._is_first(name):
            return
        # So that a run after a death makes the same calls, although the texts are there by then.
        self._rollout.remember(name, groups)
        kept = self._fetched(rows, groups, is_own=is_own)
        for line in dict.fromkeys(fetching.told(row) for row in kept):
            self._rollout.log(line)

    def _fetched(self, rows: Sequence[Row], groups: list[list[int]], *, is_own: bool) -> list[Row]:
        """The manifests with their texts, as the run goes on with them."""
        known = {
            **self._shared.known_values(),
            **self._rollout.learned(),
        }
        came = fetching.brought_in(rows, groups, known, lambda asked: self._errand(FETCH_FILES, asked))
        step = self._rollout.step
        return [
            self._shared.pin_own(step, row) if is_own else self._shared.pin(number, row)
            for number, row in came
        ]

    def _tell_of(self, kind: str) -> None:
        """Say once in a step which version of the files it works with."""
        action = self._rollout.row.pk
        if not self._is_first(f"tells {kind}") or self._rollout.remember(f"told {kind}", action) != action:
            return
        said = (fetching.told_of_kept(row) for row in self._rows(kind) if row["kind"] == kind)
        for line in dict.fromkeys(said):
            if line:
                self._rollout.log(line)

    def _pin_artifact(self) -> None:
        """Settle tag and digest of the image, once for the execution."""
        name = self._name("pins")
        found = self._rollout.recall(name) or self._shared.execution.artifact
        if pinning.is_wanting(found) and self._is_first(name):
            artifact = pinning.pinned(self._rollout.remember(name, found), self._errand)
            self._shared.pin_artifact(artifact)
            image = f"{artifact['image']}:{artifact['tag']}"
            self._rollout.log(f"The image {image} has the digest {artifact['digest']}")

    def _errand(self, operation: str, params: dict[str, Any]) -> dict[str, Any]:
        return self._rollout.caller.call(SERVICE, operation, params)

    def _name(self, what: str, kind: str = "") -> str:
        """Under which this try of the action remembers what it set out to fetch."""
        return f"{what} {self._rollout.row.pk}.{self._rollout.attempt} {kind}".strip()

    def _is_first(self, name: str) -> bool:
        """Whether this run of the phase comes here for the first time."""
        is_first = name not in self._begun
        self._begun.add(name)
        return is_first
