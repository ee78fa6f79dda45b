"""API keys are stored as hashes and die at once; the audit trail only grows."""

from datetime import timedelta

import pytest
import time_machine
from django.core.exceptions import ValidationError
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from rbac import audit
from rbac.models import ApiKey, AuditEntry, RoleAssignment, Scope, ServiceAccount, User, UserGroup
from rbac.models.audit_entries import AuditEntryIsFinalError
from rbac.operations import (
    archive_scope,
    create_service_account,
    create_user_group,
    delete_service_account,
    delete_user_group,
    remove_assignment,
    restore_scope,
)
from rbac.operations.api_keys import (
    create_api_key,
    get_api_key_by_token,
    record_api_key_use,
    revoke_api_key,
    rotate_api_key,
)
from rbac.policy import NotVisible
from tests.rbac.people import grant, project, user

pytestmark = pytest.mark.django_db


def test_a_key_is_found_by_its_token_and_the_token_is_nowhere_stored():
    person = user("ci")
    key, token = create_api_key(actor=person, user=person, name="CI")

    assert token.startswith("slp_pat_")
    assert len(token) > 40
    found_key = get_api_key_by_token(token)
    assert found_key == key
    assert found_key.user == person
    row = ApiKey.objects.filter(pk=key.pk).values().get()
    assert token not in str(row)
    assert not [entry for entry in AuditEntry.objects.values() if token in str(entry)]


def test_unknown_revoked_expired_and_orphaned_keys_open_nothing():
    person = user("ci")
    _, expired = create_api_key(
        actor=person, user=person, name="old", expires_at=timezone.now() - timedelta(seconds=1)
    )
    revoked_key, revoked = create_api_key(actor=person, user=person, name="revoked")
    _, good = create_api_key(actor=person, user=person, name="good")
    revoke_api_key(actor=person, key=revoked_key)

    assert get_api_key_by_token("slp_pat_unknown") is None
    assert get_api_key_by_token("") is None
    assert get_api_key_by_token("\ud800") is None
    assert get_api_key_by_token(expired) is None
    assert get_api_key_by_token(revoked) is None
    assert get_api_key_by_token(good) is not None
    User.objects.filter(pk=person.pk).update(is_active=False)
    assert get_api_key_by_token(good) is None


def test_a_name_is_taken_once_per_user():
    person = user("ci")
    create_api_key(actor=person, user=person, name="CI")
    with pytest.raises(ValidationError, match="already"):
        create_api_key(actor=person, user=person, name="CI")


def test_a_given_token_must_be_long_enough_to_be_a_key():
    person = user("ci")
    with pytest.raises(ValidationError):
        create_api_key(actor=person, user=person, name="CI", token="short")
    _, token = create_api_key(actor=person, user=person, name="CI", token="slp_pat_given_by_the_owner")
    assert get_api_key_by_token(token) is not None


def test_use_is_noted_once_a_minute_at_most():
    person = user("ci")
    key, token = create_api_key(actor=person, user=person, name="CI")
    start = timezone.now()
    with time_machine.travel(start, tick=False):
        record_api_key_use(key)
    with time_machine.travel(start + timedelta(seconds=30), tick=False):
        record_api_key_use(get_api_key_by_token(token))
    assert ApiKey.objects.get().last_used_at == start
    later = start + timedelta(seconds=90)
    with time_machine.travel(later, tick=False):
        record_api_key_use(get_api_key_by_token(token))
    assert ApiKey.objects.get().last_used_at == later


def test_revoking_twice_is_audited_once():
    person = user("ci")
    key, _ = create_api_key(actor=person, user=person, name="CI")
    revoke_api_key(actor=person, key=key)
    revoke_api_key(actor=person, key=key)
    assert AuditEntry.objects.filter(action="apikey.revoke").count() == 1


def test_a_role_removed_twice_at_once_is_audited_once():
    assignment = grant(user("anna"), "viewer", project())
    also_read = RoleAssignment.objects.get(pk=assignment.pk)
    remove_assignment(actor=None, assignment=assignment)
    with pytest.raises(NotVisible):
        remove_assignment(actor=None, assignment=also_read)
    assert AuditEntry.objects.filter(action="roleassignment.delete").count() == 1


def test_a_service_account_deleted_twice_at_once_is_audited_once():
    account = create_service_account(actor=None, scope=project(), name="CI")
    also_read = ServiceAccount.objects.get(pk=account.pk)
    delete_service_account(actor=None, account=account)
    with pytest.raises(NotVisible):
        delete_service_account(actor=None, account=also_read)
    assert AuditEntry.objects.filter(action="serviceaccount.delete").count() == 1


def test_a_group_deleted_twice_at_once_is_audited_once():
    group = create_user_group(actor=None, scope=project(), name="Crew")
    also_read = UserGroup.objects.get(pk=group.pk)
    delete_user_group(actor=None, group=group)
    with pytest.raises(NotVisible):
        delete_user_group(actor=None, group=also_read)
    assert AuditEntry.objects.filter(action="usergroup.delete").count() == 1


def test_a_scope_restored_twice_at_once_is_audited_once():
    scope = archive_scope(actor=None, scope=project())
    also_read = Scope.objects.get(pk=scope.pk)
    restore_scope(actor=None, scope=scope)
    with pytest.raises(ValidationError, match="is not archived"):
        restore_scope(actor=None, scope=also_read)
    assert AuditEntry.objects.filter(action="scope.restore").count() == 1


def test_an_entry_says_who_what_where_and_in_which_request():
    demo, person = project(), user("anna")
    mark = audit.RequestInfo(
        request_id="req-1", address="10.0.0.1", source="api", api_key_prefix="slp_pat_abcd"
    )
    reset = audit.current_request.set(mark)
    try:
        audit.record_audit_entry(
            actor=person, action="project.update", thing=demo, before={"name": "a"}, after={"name": "b"}
        )
    finally:
        audit.current_request.reset(reset)

    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.actor_name, entry.action) == (person, "anna", "project.update")
    assert (entry.thing_type, entry.thing_id, entry.thing_name) == ("rbac.scope", str(demo.pk), demo.path)
    assert (entry.scope, entry.before, entry.after) == (demo, {"name": "a"}, {"name": "b"})
    assert (entry.request_id, entry.address, entry.source) == ("req-1", "10.0.0.1", "api")


def test_keys_of_a_service_account_are_audited_in_its_scope_or_in_a_narrower_one_of_the_key():
    demo, shop = project(), project("default/shop")
    account = create_service_account(actor=None, scope=demo, name="CI")
    key, _ = create_api_key(actor=None, user=account.user, name="CI")
    rotate_api_key(actor=None, key=key)
    revoke_api_key(actor=None, key=key)
    create_api_key(actor=None, user=account.user, name="wide", scope=demo.parent)
    entries = AuditEntry.objects.filter(action__startswith="apikey.").select_related("scope")
    assert [entry.scope for entry in entries.order_by("pk")] == [demo] * 4

    assert demo.parent is not None
    wide_account = create_service_account(actor=None, scope=demo.parent, name="CI")
    create_api_key(actor=None, user=wide_account.user, name="shop", scope=shop)
    assert entries.latest("pk").scope == shop


def test_keys_of_a_person_are_audited_in_the_scope_that_limits_them():
    person = user("anna")
    create_api_key(actor=person, user=person, name="all")
    assert AuditEntry.objects.latest("pk").scope is None
    create_api_key(actor=person, user=person, name="demo", scope=project())
    assert AuditEntry.objects.latest("pk").scope == project()


def test_what_slipway_does_by_itself_has_its_name():
    audit.record_audit_entry(actor=None, action="project.update", thing=project())
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.actor_name, entry.source) == (None, "slipway", "internal")


@pytest.mark.parametrize("name", ["slipway", "Slipway"])
def test_nobody_takes_the_name_that_slipway_has_in_the_trail(name: str):
    person = user("anna")
    person.username = name
    with pytest.raises(ValidationError, match="means Slipway itself"):
        person.full_clean()
    # Somebody has it from before.
    User.objects.filter(pk=person.pk).update(username=name)
    person.full_clean()


def test_entries_can_neither_be_changed_nor_deleted():
    entry = audit.record_audit_entry(actor=None, action="project.update", thing=project())
    entry.action = "nothing"
    with pytest.raises(AuditEntryIsFinalError):
        entry.save()
    with pytest.raises(AuditEntryIsFinalError):
        entry.delete()
    with pytest.raises(AuditEntryIsFinalError):
        AuditEntry.objects.all().delete()
    with pytest.raises(AuditEntryIsFinalError):
        AuditEntry.objects.update(action="nothing")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE rbac_auditentry SET action = 'nothing'",
        "UPDATE rbac_auditentry SET actor_id = NULL",
        "DELETE FROM rbac_auditentry",
        "TRUNCATE rbac_auditentry CASCADE",
        "INSERT OR REPLACE INTO rbac_auditentry SELECT * FROM rbac_auditentry",
        "INSERT INTO rbac_auditentry SELECT * FROM rbac_auditentry WHERE true"
        " ON CONFLICT (id) DO UPDATE SET action = 'nothing'",
    ],
)
def test_the_database_itself_keeps_every_entry(statement: str):
    audit.record_audit_entry(actor=user("anna"), action="project.update", thing=project())
    values = AuditEntry.objects.values().get()
    # What only the other database understands is refused as well.
    with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)
    assert AuditEntry.objects.values().get() == values


def test_an_entry_outlives_its_actor():
    person = user("anna")
    number = person.pk
    audit.record_audit_entry(actor=person, action="project.update", thing=project())
    person.delete()
    entry = AuditEntry.objects.get()
    assert (entry.actor_id, entry.actor_name) == (number, "anna")
