"""Claims of processes to instances: the row of an instance, and the processes that are refused as it."""

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import F, Q

from delegates.connectivity import AWAY_AFTER
from delegates.live import publish_delegates_changed
from delegates.models import Delegate, DelegateInstance, RefusedInstance
from delegates.models.instances import build_key_fingerprint
from delegates.protocol.events import get_instance_label
from delegates.protocol.problems import InstanceTaken, TooOften
from delegates.protocol.sessions import NO_SESSION
from guards.limits import REFUSED_INSTANCES, UNBOUND_REGISTRATIONS
from rbac.usage_counts import counts

# Both processes retry, often enough to notice the end of the other.
RETRY_SECONDS = 60
EVENT_INTERVAL = timedelta(hours=1)
_MINUTE = 60
_KEY_CHARACTERS = 480
Reason = RefusedInstance.Reason
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class InstanceClaim:
    """What a process claims to be: `key` is its ECS task, or its hostname and private IP.

    `stable_id` is empty for agents without a kept home directory, `process_id` for older agents.
    """

    key: str
    public_key: str
    stable_id: str
    process_id: str


@dataclass(frozen=True)
class ClaimedInstance:
    """The locked row of a claimed instance; `others` have its key but another stable id."""

    instance: DelegateInstance
    others: tuple[DelegateInstance, ...]
    is_new: bool


def find_or_create_instance(
    claim: InstanceClaim, delegate: Delegate, *, registered_at: datetime
) -> ClaimedInstance:
    """Return the row with the stable id of a claim, else the one with its key, else a new one."""
    found = _find_instance(claim, delegate)
    if found is not None:
        return found
    try:
        with transaction.atomic():
            instance = DelegateInstance.objects.create(
                delegate=delegate, key=claim.key, stable_id=claim.stable_id, registered_at=registered_at
            )
    except IntegrityError:
        logger.info("Two instances of %s came at once", delegate.name)
        found = _find_instance(claim, delegate)
        assert found is not None  # noqa: S101 - the row that was in the way
        return found
    return ClaimedInstance(instance, (), is_new=True)


def _find_instance(claim: InstanceClaim, delegate: Delegate) -> ClaimedInstance | None:
    matches = Q(key=claim.key)
    if claim.stable_id:
        matches |= Q(stable_id=claim.stable_id)
    # Two claimants at once follow each other.
    rows = DelegateInstance.objects.select_for_update(of=("self",)).filter(matches, delegate=delegate)
    found = sorted(rows.order_by("pk"), key=lambda row: row.stable_id != claim.stable_id)
    for row in found:
        row.delegate = delegate
    return ClaimedInstance(found[0], tuple(found[1:]), is_new=False) if found else None


def check_claim(claimed: ClaimedInstance, claim: InstanceClaim, now: datetime) -> None:
    """Refuse to replace a live instance by a process without its key pair, or by a displaced process.

    A restart has the key pair and a new process. A process that was displaced by another one with its key
    pair and registers again proves that both run: one has a copy of the home directory of the other one.
    If neither process has a key pair, a restart looks like a second process; such registrations are only
    rate-limited. Raises `InstanceTaken`, `TooOften`.
    """
    for instance in (claimed.instance, *claimed.others):
        if _is_alive(instance, now):
            _check_live_instance(instance, claim)


def _check_live_instance(instance: DelegateInstance, claim: InstanceClaim) -> None:
    label = f"{get_instance_label(instance)} ({instance.key})"
    if instance.public_key != claim.public_key:
        is_same_id = bool(claim.stable_id) and claim.stable_id == instance.stable_id
        raise _refuse(instance, claim, Reason.STABLE_ID if is_same_id else Reason.HOST, label)
    if _is_displaced(instance, claim):
        raise _refuse(instance, claim, Reason.COPY, label)
    is_unbound = not claim.public_key
    if is_unbound and counts.increment(f"unbound:{instance.pk}", seconds=_MINUTE) > UNBOUND_REGISTRATIONS:
        raise TooOften(
            f"{label} registers again and again: two processes seem to share the "
            "name and host name. Give one of them another one, and upgrade the agents, which then tell "
            "each other apart.",
            retry_after=RETRY_SECONDS,
        )


def _is_displaced(instance: DelegateInstance, claim: InstanceClaim) -> bool:
    if not claim.process_id or claim.process_id == instance.process_id:
        return False
    if claim.process_id == instance.former_process_id:
        return True
    return RefusedInstance.objects.filter(instance=instance, process_id=claim.process_id).exists()


def _refuse(instance: DelegateInstance, claim: InstanceClaim, reason: Reason, label: str) -> InstanceTaken:
    seconds = f"{AWAY_AFTER.total_seconds():.0f}"
    text = f"Another process runs as {label} and was heard within the last {seconds} seconds."
    if reason is Reason.COPY:
        text = (
            f"Another process runs as {label}, with the same id and key pair: its home directory was copied."
        )
    refused = build_key_fingerprint(claim.public_key) or "none"
    text += f" {RefusedInstance(reason=reason).next_step}"
    text += f" Key pair of this one: {refused}, of the other one: {instance.key_fingerprint or 'none'}."
    return InstanceTaken(
        text,
        retry_after=RETRY_SECONDS,
        instance_id=instance.pk,
        delegate_id=instance.delegate_id,
        reason=reason,
    )


def _is_alive(instance: DelegateInstance, now: datetime) -> bool:
    last_heartbeat_at = instance.last_heartbeat_at
    is_gone = instance.status == DelegateInstance.Status.GONE
    return not is_gone and last_heartbeat_at is not None and now - last_heartbeat_at < AWAY_AFTER


def retire_others(claimed: ClaimedInstance) -> None:
    """End the former instances that have the key of a claimed one; they keep log and events."""
    for instance in claimed.others:
        former_key = f"{instance.key[:_KEY_CHARACTERS]} (former {instance.pk})"
        DelegateInstance.objects.filter(pk=instance.pk).update(key=former_key, **NO_SESSION)


def record_refused_instance(
    problem: InstanceTaken,
    claim: InstanceClaim,
    *,
    hostname: str,
    private_ip: str,
    version: str,
    address: str,
    now: datetime,
) -> bool:
    """Write the row of a refused claimant, and return whether an event is due: one per claimant and hour."""
    is_copy = problem.reason == Reason.COPY
    identity = {"public_key": claim.public_key, "process_id": claim.process_id if is_copy else ""}
    values = {
        "reason": problem.reason,
        "hostname": hostname,
        "private_ip": private_ip,
        "version": version,
        "address": address,
        "last_seen_at": now,
    }
    with transaction.atomic():
        # One after the other, so that the limit holds.
        delegate = Delegate.objects.select_for_update(no_key=True).filter(pk=problem.delegate_id).first()
        rows = RefusedInstance.objects.filter(delegate=delegate, instance=problem.instance_id, **identity)
        row = rows.first()
        if row is not None:
            is_due = now - row.event_at >= EVENT_INTERVAL
            event = {"event_at": now} if is_due else {}
            rows.update(attempts=F("attempts") + 1, **values, **event)
            return is_due
        if delegate is None or not _make_room(delegate, now):
            return False
        RefusedInstance.objects.create(
            delegate=delegate,
            instance_id=problem.instance_id,
            first_seen_at=now,
            event_at=now,
            **identity,
            **values,
        )
        publish_delegates_changed(delegate.pk)
    return True


def _make_room(delegate: Delegate, now: datetime) -> bool:
    """Return whether another claimant may be written; those that stopped trying leave for it.

    Keys cost nothing: a claimant with a new one for each attempt must not fill table and log.
    """
    rows = RefusedInstance.objects.filter(delegate=delegate)
    if rows.count() < REFUSED_INSTANCES:
        return True
    oldest = rows.order_by("last_seen_at").first()
    if oldest is None or now - oldest.last_seen_at < EVENT_INTERVAL:
        logger.warning("More than %d processes claim instances of %s", REFUSED_INSTANCES, delegate.name)
        return False
    oldest.delete()
    return True


def forget_refusals(instance: DelegateInstance, claim: InstanceClaim) -> None:
    """Delete the refusals of a process that is admitted now."""
    by_key = Q(public_key=claim.public_key, process_id="")
    if not claim.public_key:
        by_key &= Q(instance=instance)
    by_process = Q(process_id=claim.process_id) if claim.process_id else Q(pk__in=())
    RefusedInstance.objects.filter(by_key | by_process, delegate=instance.delegate_id).delete()
