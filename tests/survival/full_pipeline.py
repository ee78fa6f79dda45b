"""A pipeline with every feature: two stages, groups, branches side by side, people, scripts, requests."""

import re
from collections import Counter
from dataclasses import dataclass

from delegates.models import DelegateTask
from deployments.log import iterate_lines
from deployments.models import Approval, ApprovalDecision, Execution, Interrupt, ServiceLock, StepExecution
from rbac.models import AuditEntry
from steps.states import TERMINAL_STATUSES
from tests.deployments.engine.conftest import pipeline_text, stage_text
from tests.steps.kinds.conftest import Site

IGNORED = "failureStrategies: [{onFailure: {errors: [AllErrors], action: {type: Ignore}}}]"
# A delegate that dies takes its script with it, and what it did is not done again without being asked for.
AGAIN = (
    "failureStrategies: [{onFailure: {errors: [AllErrors], action: {type: Retry, spec: {retryCount: 5, "
    "retryIntervals: [1s], onRetryFailure: {action: {type: StageRollback}}}}}}]"
)
NOT_NOW = "when: {condition: <+env.type> == 'nowhere'}"
FIRST = """
- parallel:
    - step: {{identifier: deploy, type: EcsRollingDeploy, timeout: 5h}}
    - stepGroup:
        identifier: checks
        steps:
          - step:
              identifier: build
              type: ShellScript
              delegateSelectors: [scripts]
              {again}
              spec:
                shell: Bash
                script: |
                  {ran}/build HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3
                  VERSION=of-$NAME
                environmentVariables: [{{name: NAME, type: String, value: <+service.name>}}]
                outputVariables: [{{name: version, type: String, value: VERSION}}]
          - step:
              identifier: told
              type: Http
              {ignored}
              spec:
                url: {site}/told
                method: POST
                headers: [{{key: X-Build, value: <+steps.build.output.version>}}]
    - step: {{identifier: pause, type: Wait, spec: {{duration: 20s}}}}
    - stepGroup:
        identifier: gate
        steps:
          - step:
              identifier: ask
              type: HarnessApproval
              timeout: 5h
              spec:
                approvers: {{userGroups: [ops], minimumCount: 2, disallowPipelineExecutor: true}}
                approverInputs: [{{name: ticket, required: true}}]
          - step:
              identifier: seen
              type: Http
              spec: {{url: "{site}/seen?<+execution.steps.ask.output.approverInputs.ticket>", method: GET}}
    - step: {{identifier: flaky, type: Http, {ignored}, spec: {{url: "{site}/red", method: GET,
        assertion: <+httpResponseCode> == 299}}}}
    - step: {{identifier: never, type: Wait, {not_now}, spec: {{duration: 1h}}}}
- step: {{identifier: watch, type: Verify, spec: {{alarms: [errors], duration: 30s}}}}
- step: {{identifier: scale, type: EcsScale, spec: {{service: myapp, instances: 2}}}}
- step: {{identifier: rescue, type: Wait, when: {{stageStatus: Failure}}, spec: {{duration: 1h}}}}
"""
SECOND = """
- parallel:
    - step:
        identifier: after
        type: ShellScript
        delegateSelectors: [scripts]
        {again}
        spec:
          shell: Bash
          script: |
            {ran}/after HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3
    - step: {{identifier: rest, type: Wait, spec: {{duration: 5s}}}}
"""
UNSCALE = "          - step: {identifier: unscale, type: EcsScaleRollback}\n"


def build_pipeline(site: Site) -> str:
    """Return the pipeline; its scripts send a request to the site in each run."""
    address = site.url.removeprefix("http://").replace(":", "/")
    request_command = f"exec 3<>/dev/tcp/{address}; printf 'GET /ran"
    words = {"site": site.url, "ran": request_command, "ignored": IGNORED, "again": AGAIN, "not_now": NOT_NOW}
    first = stage_text(FIRST.format(**words), "first")
    before, back, remainder = first.partition("          - step: {identifier: back_first")
    second = stage_text(SECOND.format(**words), "second", "when: {condition: <+env.type> != 'nowhere'}")
    return pipeline_text(f"{before}{UNSCALE}{back}{remainder}", second)


@dataclass(frozen=True)
class Came:
    """The result of one run, whoever requested it and whatever died."""

    execution: Execution
    site: Site

    @property
    def steps(self) -> dict[str, StepExecution]:
        rows = StepExecution.objects.filter(stage__execution=self.execution, section="EXECUTION")
        return {step.identifier: step for step in rows}

    def times(self, script: str) -> int:
        """Return the number of runs of a script."""
        return self.count_requests()[f"/ran/{script}"]

    def count_requests(self) -> Counter[str]:
        """Count the requests to each path of the site."""
        return Counter(path.partition("?")[0] for _, path, *_ in self.site.requests)

    @property
    def statuses(self) -> dict[str, str]:
        return {name: step.status for name, step in self.steps.items()}

    def story(self) -> Counter[str]:
        """Count the log texts without numbers, ids and lines that depend on reconcile times."""
        passing = ("# AWS Event", "Waiting for pending tasks", "Waiting for the tasks of")
        lines = [line["text"] for line in iterate_lines(self.execution.pk)]
        return Counter(
            re.sub(r"[0-9a-f]{32}|\d+", "N", line) for line in lines if not line.startswith(passing)
        )

    def broken(self) -> list[str]:
        """Return the broken promises of a run, whatever its outcome."""
        run, steps = self.execution, self.steps
        problems = [
            f"{name} ran {self.times(name)} times in {steps[name].attempt} attempts"
            for name in ("build", "after")
            if self.times(name) > steps[name].attempt
        ]
        if self.count_requests()["/told"] > 1:
            problems.append("a request that may change something was sent twice")
        numbers = [line["number"] for line in iterate_lines(run.pk)]
        if numbers != list(range(1, len(numbers) + 1)):
            problems.append("the log has gaps or doubles")
        problems += [
            f"{step.identifier} is still {step.status}"
            for step in steps.values()
            if step.status not in TERMINAL_STATUSES
        ]
        if ServiceLock.objects.exists():
            problems.append("the ECS service is still held")
        if Interrupt.objects.filter(execution=run, kind="FAIL").exists():
            problems.append("a look ended in a mistake")
        if DelegateTask.objects.filter(status__in=DelegateTask.OPEN).exists():
            problems.append("a delegate task is still open")
        return problems + self._of_approvals()

    def _of_approvals(self) -> list[str]:
        approvals = Approval.objects.filter(execution=self.execution)
        ids = [str(approval.pk) for approval in approvals]
        counts = {
            "asked": approvals.count(),
            "open": approvals.filter(status="WAITING").count(),
            "decided": ApprovalDecision.objects.filter(approval__in=approvals).count(),
            "told": AuditEntry.objects.filter(action="approval.approved", thing_id__in=ids).count(),
        }
        most = {"asked": 1, "open": 0, "decided": 2, "told": 1}
        return [f"approvals {name}: {counts[name]}" for name in counts if counts[name] > most[name]]
