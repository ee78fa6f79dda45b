"""URLs of the REST API of connectors, event queues, secrets and files."""

from django.urls import path

from connectors.api import (
    connectors,
    event_queue_setups,
    event_queues,
    file_deletions,
    file_nodes,
    files,
    secrets,
)

urlpatterns = [
    path("connectors", connectors.Connectors.as_view(), name="api-connectors"),
    path("connectors/<int:pk>", connectors.ConnectorDetail.as_view(), name="api-connector"),
    path("connectors/<int:pk>/uses", connectors.ConnectorUsages.as_view(), name="api-connector-uses"),
    path(
        "connectors/<int:pk>/host-key", connectors.ConnectorHostKey.as_view(), name="api-connector-host-key"
    ),
    path("event-queues", event_queues.EventQueues.as_view(), name="api-event-queues"),
    path("event-queues/<int:pk>", event_queues.EventQueueDetail.as_view(), name="api-event-queue"),
    path("event-queue-setups", event_queue_setups.EventQueueSetups.as_view(), name="api-event-queue-setups"),
    path(
        "event-queue-setups/<int:pk>",
        event_queue_setups.EventQueueSetupDetail.as_view(),
        name="api-event-queue-setup",
    ),
    path(
        "event-queue-setups/<int:pk>/stop",
        event_queue_setups.StopEventQueueSetup.as_view(),
        name="api-stop-event-queue-setup",
    ),
    path(
        "event-queue-setups/<int:pk>/dismiss",
        event_queue_setups.DismissEventQueueSetup.as_view(),
        name="api-dismiss-event-queue-setup",
    ),
    path("secrets", secrets.Secrets.as_view(), name="api-secrets"),
    path("secrets/<int:pk>", secrets.SecretDetail.as_view(), name="api-secret"),
    path("secrets/<int:pk>/uses", secrets.SecretUsages.as_view(), name="api-secret-uses"),
    path("secrets/<int:pk>/test", secrets.SecretTestRoute.as_view(), name="api-secret-test"),
    path("files", files.Files.as_view(), name="api-files"),
    path("file-deletions", file_deletions.FileDeletions.as_view(), name="api-file-deletions"),
    path("file-deletions/<int:pk>", file_deletions.FileDeletionDetail.as_view(), name="api-file-deletion"),
    path(
        "file-deletions/<int:pk>/undo", file_deletions.FileDeletionUndo.as_view(), name="api-file-undeletion"
    ),
    path("file-checks", file_nodes.FileChecks.as_view(), name="api-file-checks"),
    path("file-clean-ups", file_nodes.FileCleanUps.as_view(), name="api-file-clean-ups"),
    path("file-nodes/<int:pk>/versions", file_nodes.FileVersions.as_view(), name="api-file-versions"),
    path(
        "file-nodes/<int:pk>/versions/<int:version>",
        file_nodes.FileVersionDetail.as_view(),
        name="api-file-version",
    ),
    path("file-nodes/<int:pk>/diff", file_nodes.FileDiff.as_view(), name="api-file-diff"),
    path("file-nodes/<int:pk>/restore", file_nodes.FileRestore.as_view(), name="api-file-restore"),
    path("file-nodes/<int:pk>/move", file_nodes.FileMove.as_view(), name="api-file-move"),
    path("file-nodes/<int:pk>/uses", file_nodes.FileUsages.as_view(), name="api-file-uses"),
    path("files/<path:path>", files.FileDetail.as_view(), name="api-file"),
]
