"""Reports of acceptance runs, as Markdown and as JSON."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Any, Self

from ops.acceptance.comparison import load_sandbox_observations, pair_events, summarize
from ops.acceptance.observations import Observation
from ops.acceptance.plans import PermissionCheck
from ops.acceptance.rules import RuleResult, Verdict, evaluate_rules
from ops.acceptance.scenarios import SCENARIOS, SCENARIOS_BY_NAME, Scenario
from ops.models import AcceptanceRun

FORMAT = 1
TITLES = {scenario.name: scenario.title for scenario in SCENARIOS}


@dataclass(frozen=True)
class AcceptanceReport:
    """Result of a run with its circumstances; `private` is written only on request."""

    observations: Sequence[Observation]
    is_complete: bool
    left: Sequence[str]
    version: str
    region: str
    started_at: datetime
    ended_at: datetime
    permissions: PermissionCheck
    private: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, run: AcceptanceRun, private: Mapping[str, str] | None = None) -> Self:
        """Return the report of a run, as far as it has come."""
        return cls(
            observations=[Observation.from_json(record) for record in run.observations],
            is_complete=run.is_complete,
            left=run.left,
            version=run.version,
            region=run.region,
            started_at=run.started_at,
            ended_at=run.ended_at or run.started_at,
            permissions=PermissionCheck(**run.permissions),
            private=private or {},
        )

    @cached_property
    def rule_results(self) -> list[RuleResult]:
        return evaluate_rules(self.observations)

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "slipway": self.version,
            "region": self.region,
            "started_at": self.started_at.isoformat(timespec="seconds"),
            "ended_at": self.ended_at.isoformat(timespec="seconds"),
            "is_complete": self.is_complete,
            "rules": [
                {"rule": each.rule.identifier, "verdict": each.verdict, "seen": list(each.seen)}
                for each in self.rule_results
            ],
            "observations": [observation.to_json() for observation in self.observations],
            "denied_actions": list(self.permissions.denied),
            "not_deleted": len(self.left),
            **({"private": dict(self.private)} if self.private else {}),
        }

    def to_markdown(self) -> str:
        return "\n".join(self._render()) + "\n"

    def _render(self) -> Iterator[str]:
        yield from ("# Acceptance run", "")
        minutes = (self.ended_at - self.started_at).total_seconds() / 60
        state = "complete" if self.is_complete else "NOT complete"
        yield (
            f"Slipway {self.version}, {self.region}, {self.started_at:%Y-%m-%d %H:%M} UTC, {minutes:.0f} "
            f"minutes, {state}. Ids, names and addresses are replaced. Times are seconds since the creation "
            "of the deployment."
        )
        if self.private:
            yield from ("", *(f"- {name}: {value}" for name, value in self.private.items()))
        yield from _render_rules(self.rule_results)
        sandbox = load_sandbox_observations()
        for observation in self.observations:
            yield from _render_scenario(observation, sandbox.get(observation.scenario))
        yield from _render_permissions(self.permissions, self.observations)
        yield from ("", "## Cleanup", "")
        if self.left:
            yield (
                f"{len(self.left)} resources could not be deleted. Delete them on the page of the run, or "
                "with `manage acceptance --clean-up`."
            )
        else:
            yield "Everything that the run created was deleted."


class ScenarioState(StrEnum):
    """How far a scenario of a run is, in the words of page badges."""

    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    DONE = "DONE"
    SKIPPED = "SKIPPED"


@dataclass(frozen=True)
class ScenarioProgressRow:
    """Planned scenario of a run; without an observation until it is done."""

    scenario: Scenario
    state: ScenarioState
    observation: Observation | None = None

    @property
    def result(self) -> str:
        """Return status and outcome of the execution."""
        if self.observation is None:
            return ""
        return " ".join(filter(None, (self.observation.status, self.observation.outcome)))


def list_scenario_progress(run: AcceptanceRun) -> list[ScenarioProgressRow]:
    """Return each planned scenario of a run with its state."""
    observations = {record["scenario"]: Observation.from_json(record) for record in run.observations}
    current = (run.progress.get("scenario") or {}).get("scenario")
    waiting = ScenarioState.QUEUED if run.status == AcceptanceRun.Status.RUNNING else ScenarioState.SKIPPED
    rows = []
    for name in run.scenarios:
        state = ScenarioState.RUNNING if name == current else waiting
        state = ScenarioState.DONE if name in observations else state
        rows.append(ScenarioProgressRow(SCENARIOS_BY_NAME[name], state, observations.get(name)))
    return rows


def describe_progress(run: AcceptanceRun) -> Iterator[str]:
    """Yield a line for each thing that happened so far."""
    for row in list_scenario_progress(run):
        if row.state in (ScenarioState.RUNNING, ScenarioState.DONE):
            yield f"{row.scenario.title} …"
        if row.observation:
            yield f"  {row.scenario.name}: {row.result} after {row.observation.seconds:.0f} s"
    if run.problem:
        yield f"Stopped: {run.problem}"
    if run.status not in (AcceptanceRun.Status.RUNNING, AcceptanceRun.Status.UNKNOWN):
        yield "Deleting what the run created …"


def _render_rules(results: Sequence[RuleResult]) -> Iterator[str]:
    yield from ("", "## Rules", "")
    counts = {verdict: sum(each.verdict is verdict for each in results) for verdict in Verdict}
    yield ", ".join(f"{count} {verdict}" for verdict, count in counts.items()) + "."
    yield from ("", "| Rule | Result | Seen | Source |", "|---|---|---|---|")
    for each in results:
        rule = each.rule
        verdict = f"**{each.verdict}**" if each.verdict is Verdict.BROKEN else each.verdict
        seen = "<br>".join(map(_escape, each.seen))
        yield f"| `{rule.identifier}`: {rule.sentence} | {verdict} | {seen} | {rule.source} |"


def _render_scenario(observation: Observation, sandbox: Observation | None) -> Iterator[str]:
    yield from ("", f"## {TITLES.get(observation.scenario, observation.scenario)}", "")
    other = sandbox or Observation(observation.scenario)
    pairs = list(pair_events(observation.events, other.events))
    yield from ("| Here | Sandbox | Event | |", "|---|---|---|---|")
    for pair in pairs:
        event = pair.here or pair.sandbox
        mark = "" if pair.is_equal else "only here" if pair.here else "only in the sandbox"
        here, there = (f"{each.seconds:.0f} s" if each else "" for each in (pair.here, pair.sandbox))
        yield f"| {here} | {there} | {_escape(event.text if event else '')} | {mark} |"
    summary, expected = summarize(observation), summarize(other)
    yield from ("", "| | Here | Sandbox |", "|---|---|---|")
    for name, texts in summary.items():
        here = "<br>".join(map(_escape, texts))
        same = texts == expected[name]
        yield f"| {name} | {here} | {'the same' if same else '<br>'.join(map(_escape, expected[name]))} |"
    starts, expected_starts = _describe_starts(observation), _describe_starts(other)
    yield f"| From creation to start | {starts} | {expected_starts} |"
    yield f"| Execution | {observation.seconds:.0f} s | {other.seconds:.0f} s |"


def _describe_starts(observation: Observation) -> str:
    lengths = [
        task.started - task.created
        for task in observation.tasks
        if task.started is not None and task.created is not None
    ]
    return ", ".join(f"{length:.0f} s" for length in lengths) or "no task started"


def _render_permissions(permissions: PermissionCheck, observations: Sequence[Observation]) -> Iterator[str]:
    yield from ("", "## Permissions", "")
    refused = sorted({action for observation in observations for action in observation.refused})
    yield f"Denied during the run: {', '.join(refused) or 'nothing'}."
    if permissions.problem:
        yield "IAM could not be asked before the run."
    else:
        yield f"Denied by IAM's simulation: {', '.join(permissions.denied) or 'nothing'}."


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
