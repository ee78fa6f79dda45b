"""Wiring of the apps: one table of all registrations.

A package imports only packages below it. Dependencies on packages above are registered here, once Django has
loaded all apps.
"""

from importlib import import_module

# Importing one of these registers its usage finders and checks.
REGISTERING_MODULES = (
    "catalog.connector_users",
    "catalog.delegate_environments",
    "catalog.manifests.manifest_files",
    "delegates.queries.configuration_secrets",
    "gitsync.connector_users",
    "notifications.usages",
    "pipelines.definition.step_references",
    "pipelines.usages",
)


def connect_apps() -> None:
    """Enter every registration of one app at another."""
    for module in REGISTERING_MODULES:
        import_module(module)
    _register_usages()
    _register_task_owners()
    _register_live_sources()
    _register_work_delays()
    _register_database_guards()
    _register_inventory()
    _register_event_listeners()
    _register_retention()
    _register_policy_documents()


def _register_usages() -> None:
    """Register users, managers and listeners of resources, archive guards, previews, and triggered runs."""
    from catalog.usages import register_service_check, register_usage_finder
    from connectors.operations.event_queues import register_queue_reader_finder
    from connectors.operations.secrets import register_secret_listener
    from connectors.usages import register_connector_records
    from delegates.installations import register_installation_finder, register_upgrade_reader
    from delegates.operations.configuration_secrets import run_scripts_again
    from deployments.approvals.plan import register_remaining_preview
    from deployments.delegate_installs.records import list_delegate_installations
    from deployments.delegate_installs.upgrade_queries import read_upgrade_summary
    from deployments.execution.queries import count_connector_executions, count_open_executions
    from deployments.execution.triggered_runs import TriggeredRunStarter
    from deployments.preview.remaining_steps import preview_remaining_steps
    from gitsync.editing import find_git_management
    from gitsync.proposals.recording import prepare_proposal
    from pipelines.deployability import require_deployable_service
    from pipelines.queries import find_pipelines_using
    from pipelines.triggers.runs import register_run_starter
    from pipelines.triggers.watches import find_queue_trigger
    from rbac.archive_guards import register_archive_guard
    from web.managed_resources import register_change_proposer, register_management_finder

    register_installation_finder(list_delegate_installations)
    register_upgrade_reader(read_upgrade_summary)
    register_secret_listener(run_scripts_again)
    register_usage_finder(find_pipelines_using)
    register_service_check(require_deployable_service)
    register_connector_records("execution", count_connector_executions)
    register_archive_guard(count_open_executions)
    register_remaining_preview(preview_remaining_steps)
    register_run_starter(TriggeredRunStarter())
    register_queue_reader_finder(find_queue_trigger)
    register_management_finder(find_git_management)
    register_change_proposer(prepare_proposal)


def _register_task_owners() -> None:
    """Register the owners of delegate tasks, and the reader of secrets through delegates."""
    from connectors.secret_values import register_remote_reader
    from delegates.access.lookup_tasks import LOOKUP_OWNER, LookupTaskOwner
    from delegates.access.secret_reads import SECRET_READ_OWNER, SecretReadOwner, read_through_delegate
    from delegates.event_queues.delegate_reads import EventQueueTaskOwner
    from delegates.event_queues.delegate_setups import SETUP_OWNER, SetupTaskOwner
    from delegates.task_owners import EVENT_QUEUE_OWNER, register_task_owner
    from deployments.journal.aws_access import CALL_OWNER
    from deployments.journal.call_owner import CallOwner
    from deployments.preview.delegate_reads import PREVIEW_OWNER, PreviewOwner
    from deployments.rehearsal.operations import continue_reads
    from inventory.drift.drift_scan import DriftScan
    from inventory.sync.scans.runner import ScanTaskOwner
    from inventory.sync.sync_scan import SyncScan
    from inventory.tasks import queue_drift_scan, queue_sync

    register_task_owner(LOOKUP_OWNER, LookupTaskOwner())
    register_task_owner(SECRET_READ_OWNER, SecretReadOwner(), has_secret_results=True)
    register_remote_reader(read_through_delegate)
    register_task_owner(EVENT_QUEUE_OWNER, EventQueueTaskOwner(), has_secret_results=True, is_background=True)
    register_task_owner(SETUP_OWNER, SetupTaskOwner(), has_secret_results=True)
    register_task_owner(CALL_OWNER, CallOwner())
    register_task_owner(PREVIEW_OWNER, PreviewOwner(continue_reads))
    register_task_owner(SyncScan.OWNER, ScanTaskOwner(SyncScan, queue_sync), is_background=True)
    register_task_owner(DriftScan.OWNER, ScanTaskOwner(DriftScan, queue_drift_scan), is_background=True)


def _register_live_sources() -> None:
    """Register the live sources of pages."""
    from connectors.live import SETUP_SOURCE
    from delegates.live import DELEGATE_SOURCE, LOG_SOURCE, LOOKUP_SOURCE, TASK_SOURCE
    from deployments.approvals.live import APPROVAL_TOPIC
    from deployments.live.badges import BADGE_SOURCE
    from deployments.live.executions import EXECUTION_TOPIC
    from deployments.live.timelines import TIMELINE_SOURCE
    from deployments.preview.live import PREVIEW_TOPIC
    from gitsync.live import GIT_SYNC_SOURCE
    from inventory.adoption.live import ADOPTION_SOURCE
    from inventory.dashboards.live import DASHBOARD_SOURCE
    from inventory.sync.live import CLUSTER_SOURCE
    from ops.acceptance.live import ACCEPTANCE_SOURCE
    from web.live import register_source

    for source in (
        DELEGATE_SOURCE,
        TASK_SOURCE,
        LOOKUP_SOURCE,
        LOG_SOURCE,
        EXECUTION_TOPIC,
        TIMELINE_SOURCE,
        APPROVAL_TOPIC,
        PREVIEW_TOPIC,
        GIT_SYNC_SOURCE,
        CLUSTER_SOURCE,
        ADOPTION_SOURCE,
        BADGE_SOURCE,
        DASHBOARD_SOURCE,
        ACCEPTANCE_SOURCE,
        SETUP_SOURCE,
    ):
        register_source(source)


def _register_work_delays() -> None:
    """Register why all work of the installation waits."""
    from ops.background import list_work_delays
    from web.work_delays import register_delay_reader

    register_delay_reader(list_work_delays)


def _register_database_guards() -> None:
    """Register what stops tasks, requests that write, and agents."""
    from ops.backups.restores import require_settled_database
    from ops.backups.unfinished import require_finished_restore
    from web.database_guards import register_work_guard, register_write_guard

    register_write_guard(require_finished_restore)
    register_work_guard(require_settled_database)


def _register_inventory() -> None:
    """Register the badge of drifted services, and the owners of adopted ones."""
    from deployments.live.badges import register_badge
    from inventory.adoption.owners import get_adoption_owners
    from inventory.queries.drift import DRIFT_BADGE, count_drifted_services
    from inventory.sync.owners import register_owner_source

    register_badge(DRIFT_BADGE, count_drifted_services)
    register_owner_source(get_adoption_owners)


def _register_event_listeners() -> None:
    """Register the parts that events of AWS concern."""
    from delegates.event_queues.events import register_event_listener, register_stop_listener
    from deployments.tasks import poll_without_events, wake_for_events
    from inventory.tasks import sync_for_events
    from pipelines.triggers.push_events import wake_for_pushes

    register_event_listener(wake_for_events)
    register_event_listener(sync_for_events)
    register_event_listener(wake_for_pushes)
    register_stop_listener(poll_without_events)


def _register_retention() -> None:
    """Register the retention of each kind of row."""
    from accounts.authentication.sessions import SESSION_RETENTION
    from accounts.queries.audit import AUDIT_RETENTION
    from delegates.retention import DELEGATE_RETENTION
    from deployments.retention import DEPLOYMENT_RETENTION, EXECUTION_RETENTIONS
    from inventory.retention import DRIFT_RETENTION, INSTANCE_RETENTION
    from notifications.outbox_sender import NOTIFICATION_RETENTION
    from ops.acceptance.runs import ACCEPTANCE_RETENTION
    from web.forms.drafts import DRAFT_RETENTION
    from web.retention import IDEMPOTENCY_RETENTION, register_retention

    register_retention("executions", EXECUTION_RETENTIONS)
    register_retention("deployments", DEPLOYMENT_RETENTION)
    register_retention("instances", INSTANCE_RETENTION)
    register_retention("drift", DRIFT_RETENTION)
    register_retention("notifications", NOTIFICATION_RETENTION)
    register_retention("sessions", SESSION_RETENTION)
    register_retention("drafts", DRAFT_RETENTION)
    register_retention("idempotency", IDEMPOTENCY_RETENTION)
    register_retention("delegates", DELEGATE_RETENTION)
    register_retention("acceptance", ACCEPTANCE_RETENTION)
    # Nothing deletes audit entries, so nothing prunes them; the page shows their size.
    register_retention("audit", AUDIT_RETENTION)


def _register_policy_documents() -> None:
    """Register the stored documents that policy rules can be tried on."""
    from catalog.policy_source import list_manifest_choices, load_manifest_documents
    from deployments.execution.policy_documents import (
        list_execution_choices,
        list_recent_pipelines,
        list_recent_runs,
        load_execution_documents,
    )
    from pipelines.policy_source import list_pipeline_choices, load_pipeline_documents
    from policies.document_sources import DocumentSource, register_document_source
    from policies.models import PolicyRule

    subjects = PolicyRule.Subject
    for source in (
        DocumentSource(
            subjects.PIPELINE, load_pipeline_documents, list_pipeline_choices, list_recent_pipelines
        ),
        DocumentSource(subjects.MANIFEST, load_manifest_documents, list_manifest_choices),
        DocumentSource(subjects.RUN, load_execution_documents, list_execution_choices, list_recent_runs),
    ):
        register_document_source(source)
