"""Every table of the admin site, and the permission that each of its pages needs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db.models import Model

from rbac.models import AuditEntry
from tests.api.required_access import ACCOUNT, HERE
from tests.api.sample_project import World


def get_first_entry(world: World) -> Model:
    return AuditEntry.objects.filter(scope=world.scope).earliest("pk")


@dataclass(frozen=True)
class Table:
    """The permissions of a table's admin pages ("" for nobody), and its row of the world."""

    row: Callable[[World], Any]
    view: str
    add: str = ""
    delete: str = ""
    at: str = HERE


def get_object(attribute: str) -> Callable[[World], Any]:
    return lambda world: getattr(world, attribute)


TABLES: dict[str, Table] = {
    "connectors.connector": Table(get_object("connector"), "core_connector_view"),
    "connectors.eventqueue": Table(lambda world: world.connector.event_queues.get(), "core_connector_view"),
    "connectors.eventqueuesetup": Table(
        lambda world: world.connector.event_queue_setups.get(), "core_connector_view"
    ),
    "connectors.filenode": Table(get_object("file"), "core_file_view"),
    "connectors.secret": Table(get_object("secret"), "core_secret_view"),
    "delegates.delegate": Table(get_object("delegate"), "core_delegate_view"),
    "delegates.delegateconfiguration": Table(
        lambda world: world.delegate.configuration, "core_delegateconfiguration_view"
    ),
    "delegates.delegateevent": Table(
        lambda world: world.delegate.events.earliest("pk"), "core_delegate_view"
    ),
    "delegates.delegateinstance": Table(
        lambda world: world.delegate.instances.earliest("pk"), "core_delegate_view"
    ),
    "delegates.delegatetoken": Table(get_object("token"), "core_delegate_view"),
    "gitsync.gitsync": Table(get_object("git_sync"), "core_gitsync_view"),
    "notifications.notification": Table(get_object("notification"), "core_notificationrule_view"),
    "notifications.notificationrule": Table(get_object("notification_rule"), "core_notificationrule_view"),
    "policies.policyrule": Table(get_object("policy_rule"), "core_policyrule_view"),
    "rbac.apikey": Table(
        get_object("key"), "core_user_view", "core_user_manage", "core_user_manage", at=ACCOUNT
    ),
    "rbac.auditentry": Table(get_first_entry, "core_audit_view"),
    "rbac.resourcegroup": Table(
        get_object("resource_group"),
        "core_resourcegroup_view",
        "core_resourcegroup_edit",
        "core_resourcegroup_delete",
    ),
    "rbac.role": Table(get_object("role"), "core_role_view", "core_role_edit", "core_role_delete"),
    "rbac.roleassignment": Table(
        get_object("assignment"), "core_user_view", "core_user_manage", "core_user_manage"
    ),
    "rbac.scope": Table(get_object("scope"), "core_organization_view", "core_project_edit"),
    "rbac.serviceaccount": Table(
        get_object("service_account"),
        "core_serviceaccount_view",
        "core_serviceaccount_edit",
        "core_serviceaccount_delete",
    ),
    "rbac.user": Table(get_object("member"), "core_user_view", "core_user_manage", at=ACCOUNT),
    "rbac.usergroup": Table(
        get_object("user_group"), "core_usergroup_view", "core_usergroup_manage", "core_usergroup_manage"
    ),
}
