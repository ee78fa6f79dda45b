"""Reports of acceptance runs, as Markdown and as JSON."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ops.acceptance.comparison import load_sandbox_observations, pair_events, summarize
from ops.acceptance.observations import Observation
from ops.acceptance.plans import PermissionCheck
from ops.acceptance.rules import RuleResult, Verdict, evaluate_rules
from ops.acceptance.runs import AcceptanceResult
from ops.acceptance.scenarios import SCENARIOS

FORMAT = 1
TITLES = {scenario.name: scenario.title for scenario in SCENARIOS}


@dataclass(frozen=True)
class AcceptanceReport:
    """Result of a run with its circumstances; `private` is written only on request."""

    result: AcceptanceResult
    version: str
    region: str
    started_at: datetime
    ended_at: datetime
    permissions: PermissionCheck
    private: Mapping[str, str] = field(default_factory=dict)

    @property
    def rule_results(self) -> list[RuleResult]:
        return evaluate_rules(self.result.observations)

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "slipway": self.version,
            "region": self.region,
            "started_at": self.started_at.isoformat(timespec="seconds"),
            "ended_at": self.ended_at.isoformat(timespec="seconds"),
            "is_complete": self.result.is_complete,
            "rules": [
                {"rule": each.rule.identifier, "verdict": each.verdict, "seen": list(each.seen)}
                for each in self.rule_results
            ],
            "observations": [observation.to_json() for observation in self.result.observations],
            "denied_actions": list(self.permissions.denied),
            "not_deleted": len(self.result.left),
            **({"private": dict(self.private)} if self.private else {}),
        }

    def to_markdown(self) -> str:
        return "\n".join(self._render()) + "\n"

    def _render(self) -> Iterator[str]:
        yield from ("# Acceptance run", "")
        minutes = (self.ended_at - self.started_at).total_seconds() / 60
        state = "complete" if self.result.is_complete else "NOT complete"
        yield (
            f"Slipway {self.version}, {self.region}, {self.started_at:%Y-%m-%d %H:%M} UTC, {minutes:.0f} "
            f"minutes, {state}. Ids, names and addresses are replaced. Times are seconds since the creation "
            "of the deployment."
        )
        if self.private:
            yield from ("", *(f"- {name}: {value}" for name, value in self.private.items()))
        yield from _render_rules(self.rule_results)
        sandbox = load_sandbox_observations()
        for observation in self.result.observations:
            yield from _render_scenario(observation, sandbox.get(observation.scenario))
        yield from _render_permissions(self.permissions, self.result.observations)
        yield from ("", "## Cleanup", "")
        if self.result.left:
            yield f"{len(self.result.left)} resources could not be deleted. Run the command with --clean-up."
        else:
            yield "Everything that the run created was deleted."


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
