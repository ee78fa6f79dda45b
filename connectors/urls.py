"""URLs of the pages of connectors, event queues, secrets and files."""

from django.urls import path

from connectors.pages import (
    connectors,
    event_queue_setups,
    event_queues,
    file_actions,
    file_deletions,
    file_editor,
    files,
    secrets,
)

urlpatterns = [
    path("connectors/", connectors.list_connectors, name="connectors"),
    path("connectors/new/", connectors.NewConnector.as_view(), name="new-connector"),
    path("connectors/<int:pk>/", connectors.show_connector, name="connector"),
    path("connectors/<int:pk>/edit/", connectors.EditConnector.as_view(), name="edit-connector"),
    path("connectors/<int:pk>/delete/", connectors.DeleteConnector.as_view(), name="delete-connector"),
    path("connectors/<int:pk>/host-key/", connectors.review_host_key, name="connector-host-key"),
    path(
        "connectors/<int:pk>/event-queues/new/",
        event_queues.NewEventQueue.as_view(),
        name="new-event-queue",
    ),
    path(
        "connectors/<int:pk>/event-queues/set-up/",
        event_queue_setups.NewEventQueueSetup.as_view(),
        name="new-event-queue-setup",
    ),
    path(
        "event-queue-setups/<int:pk>/stop/",
        event_queue_setups.StopEventQueueSetup.as_view(),
        name="stop-event-queue-setup",
    ),
    path(
        "event-queue-setups/<int:pk>/dismiss/",
        event_queue_setups.DismissEventQueueSetup.as_view(),
        name="dismiss-event-queue-setup",
    ),
    path("event-queues/<int:pk>/delete/", event_queues.DeleteEventQueue.as_view(), name="delete-event-queue"),
    path("event-queues/stack.yaml", event_queues.download_stack, name="event-queue-stack"),
    path("secrets/", secrets.list_secrets, name="secrets"),
    path("secrets/new/", secrets.NewSecret.as_view(), name="new-secret"),
    path("secrets/<int:pk>/", secrets.show_secret, name="secret"),
    path("secrets/<int:pk>/test/", secrets.test_secret, name="test-secret"),
    path("secrets/<int:pk>/rotate/", secrets.RotateSecret.as_view(), name="rotate-secret"),
    path("secrets/<int:pk>/rename/", secrets.RenameSecret.as_view(), name="rename-secret"),
    path("secrets/<int:pk>/delete/", secrets.DeleteSecret.as_view(), name="delete-secret"),
    path("files/", files.show_file_store, name="files"),
    path("files/deleted/", file_deletions.list_deletions, name="deleted-files"),
    path("files/deleted/<int:pk>/undo/", file_deletions.restore_deleted_file, name="undelete-files"),
    path("files/deleted/<int:pk>/forget/", file_deletions.PurgeDeletion.as_view(), name="forget-files"),
    path("files/new/", file_editor.new_file, name="new-file"),
    path("files/new-folder/", file_actions.NewFolder.as_view(), name="new-folder"),
    path("files/upload/", file_actions.UploadFiles.as_view(), name="upload-files"),
    path("files/check/", file_editor.check_text, name="check-file"),
    path("files/clean-up/", file_editor.clean_up_text, name="clean-up-file"),
    path("files/<int:pk>/", files.show_file, name="file"),
    path("files/<int:pk>/edit/", file_editor.edit_file, name="edit-file"),
    path("files/<int:pk>/download/", files.download_file, name="download-file"),
    path("files/<int:pk>/move/", file_actions.MoveFile.as_view(), name="move-file"),
    path("files/<int:pk>/delete/", file_actions.DeleteFile.as_view(), name="delete-file"),
    path("files/<int:pk>/history/", files.show_file_history, name="file-history"),
    path("files/<int:pk>/restore/<int:version>/", file_editor.restore_version, name="restore-file"),
]
