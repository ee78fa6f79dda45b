"""Diagnosis of a delegate from its own place, for a user of the manager."""

import os
from dataclasses import asdict

from delegates.agent.doctor import examine_delegate
from delegates.agent.executors.task_results import ExecutorContext, TaskResult, build_aborted, build_success
from delegates.agent.tasks import HeldTask
from guards.safe_http import build_tls_context


def run_doctor(held_task: HeldTask, around: ExecutorContext) -> TaskResult:
    """Return the findings of all checks; a fault that they find is no failure of the task."""
    findings = []
    for name, finding in examine_delegate(os.environ, build_tls_context()):
        if held_task.stopped.is_set():
            return build_aborted()
        findings.append({"check": name, **asdict(finding)})
    return build_success({"findings": findings})
