"""Delegates of a test: they take what they are offered and make the calls, without a process of their own."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from aws.caller import BotoCaller
from aws.errors import AwsError
from delegates.access.site_calls import record_answered_host_key
from delegates.agent.executors.aws import FETCH_OBJECTS, build_aws_failure, parse_credentials
from delegates.models import Delegate, DelegateInstance, DelegateTask, TaskAttempt
from delegates.protocol.completions import complete_task
from delegates.protocol.result_schemas import get_result_variant
from delegates.task_owners import TaskAnswer, TaskPayload, get_task_owner
from delegates.task_queue import route_waiting_tasks
from rbac.models import Scope
from tests.agent.tasks import run
from web.clock import get_database_time


@dataclass
class Hand:
    """One connected delegate with one instance."""

    instance: DelegateInstance
    taken: list[str] = field(default_factory=list)
    payloads: list[TaskPayload] = field(default_factory=list)

    def take(self) -> DelegateTask | None:
        """Take one task that is offered to this delegate, if its owner still wants it."""
        offered = DelegateTask.objects.filter(status="QUEUED", offered_to=self.instance.delegate)
        task = offered.order_by("queued_at").first()
        if task is None:
            return None
        task.instance, task.status, task.fence = self.instance, DelegateTask.Status.STARTED, task.fence + 1
        task.save()
        owner = get_task_owner(task)
        assert owner is not None
        payload = owner.acquire(task)
        if payload is None:
            task.status = DelegateTask.Status.ABORTED
            task.save()
            return None
        task.instance_name = f"{self.instance.delegate.name} on {self.instance.hostname}"
        task.save()
        self.taken.append(str(payload.params.get("operation", task.kind)))
        self.payloads.append(payload)
        return task

    def perform(self, task: DelegateTask) -> TaskAnswer:
        """Make the call of a task."""
        params = self.payloads[-1].params
        if task.kind != DelegateTask.Kind.AWS or params["operation"] == FETCH_OBJECTS[1]:
            done = run(task.kind, dict(params))
            return TaskAnswer(done.status, done.result, done.error, duration_ms=7)
        credentials = parse_credentials(params["credentials"])
        caller = BotoCaller(credentials, params["region"], params["endpoint_url"])
        try:
            result = caller.call(params["service"], params["operation"], params["params"])
        except AwsError as error:
            failed = build_aws_failure(error, credentials)
            return TaskAnswer(failed.status, error=failed.error)
        return TaskAnswer("SUCCEEDED", result=json.loads(json.dumps(result)), duration_ms=7)

    def complete(self, task: DelegateTask, answer: TaskAnswer) -> None:
        """Give the answer of a task."""
        DelegateTask.objects.filter(pk=task.pk).update(status=answer.status)
        owner = get_task_owner(task)
        assert owner is not None
        record_answered_host_key(task.connector, task.criterion, answer)
        owner.complete(task, answer)

    def send(self, task: DelegateTask, answer: TaskAnswer) -> None:
        """Send the answer of a task as an agent does: whatever it is, it goes by the protocol."""
        asked = get_result_variant(task.kind, self.payloads[-1].params)
        TaskAttempt.objects.create(
            task=task, fence=task.fence, instance=self.instance, at=get_database_time(), asked=asked
        )
        assert complete_task(self.instance, task.pk, fence=task.fence, answer=answer)

    def serve(self) -> int:
        """Do all that is offered; gives back how much that was."""
        done = 0
        route_waiting_tasks(get_database_time())
        while (task := self.take()) is not None:
            self.complete(task, self.perform(task))
            done += 1
        return done

    def lose(self, task: DelegateTask) -> None:
        """The lease of a task ends with this delegate: what the manager does then."""
        owner = get_task_owner(task)
        assert owner is not None
        if task.is_write:
            DelegateTask.objects.filter(pk=task.pk).update(status="FAILED", reason="DELEGATE_LOST")
            owner.lost(task)
        else:
            DelegateTask.objects.filter(pk=task.pk).update(
                status="QUEUED", offered_to=None, offered_until=None
            )
            owner.again(task)


def hand(name: str, *, tags: tuple[str, ...] = (), hostname: str = "ip-10-0-1-7") -> Hand:
    """A delegate of the whole account that is connected now."""
    account = Scope.objects.get(path="account")
    delegate = Delegate.objects.create(scope=account, name=name, kind="ECS", tags=list(tags))
    now = datetime.now(UTC)
    instance = DelegateInstance.objects.create(
        delegate=delegate,
        key=f"{hostname}/{name}",
        hostname=hostname,
        connection="WEBSOCKET",
        status="REGISTERED",
        capacity=10,
        registered_at=now,
        last_heartbeat_at=now + timedelta(hours=1),
    )
    return Hand(instance)
