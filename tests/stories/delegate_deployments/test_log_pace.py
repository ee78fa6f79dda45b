"""A script that floods its log: it is slowed down, a line of the step's log says so, and no line is lost."""

import sys

import pytest

from delegates.agent.logs.spool import THROTTLED_MESSAGE
from delegates.models import DelegateTask
from deployments.execution.operations import run_pipeline
from deployments.log import iterate_lines
from pipelines.operations.pipelines import save_pipeline
from rbac.models import Scope, User
from tests.deployments.engine.conftest import pipeline_text, stage_text
from tests.steps.kinds.test_script import script_step
from tests.stories.delegate_deployments.conftest import StartDying
from tests.stories.delegate_deployments.demo_deployments import Work
from tests.stories.delegate_deployments.slow_agent import BURST, RATE

pytestmark = pytest.mark.django_db(transaction=True)
SLOW_AGENT = (sys.executable, "-m", "tests.stories.delegate_deployments.slow_agent")
LINES, LINE_BYTES = 100, 10_000
FLOOD = f"""line=$(head -c {LINE_BYTES} /dev/zero | tr '\\0' x)
for n in $(seq {LINES}); do echo "line $n $line"; done > all
cat all"""


def test_a_flood_is_slowed_down_and_arrives_whole(work: Work, start: StartDying) -> None:
    start("one", program=SLOW_AGENT)
    admin, project = User.objects.get(username="admin"), Scope.objects.get(path="account/default/demo")
    text = pipeline_text(stage_text(script_step(FLOOD).replace("[scripts]", "[prod]")))
    pipeline = save_pipeline(actor=admin, scope=project, yaml=text)
    execution = work.until_over(run_pipeline(actor=work.deployer, pipeline=pipeline))
    assert execution.status == "SUCCESS", execution.failure
    texts = [line["text"] for line in iterate_lines(execution.pk)]
    numbers = [int(line.split()[1]) for line in texts if line.startswith("line ")]
    assert numbers == list(range(1, LINES + 1))
    assert texts.count(THROTTLED_MESSAGE) == 1
    task = DelegateTask.objects.get(kind="shell")
    assert task.next_sequence == LINES + 1
    assert task.started_at is not None
    assert task.finished_at is not None
    seconds = (task.finished_at - task.started_at).total_seconds()
    assert seconds >= (LINES * LINE_BYTES - BURST) / RATE - 0.1
