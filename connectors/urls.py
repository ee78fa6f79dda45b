"""Addresses of the pages of this app."""

from django.urls import path

from connectors.pages import connectors, file_deletions, file_places, file_texts, files, host_keys, secrets

urlpatterns = [
    path("connectors/", connectors.connectors, name="connectors"),
    path("connectors/new/", connectors.new_connector, name="new-connector"),
    path("connectors/<int:pk>/", connectors.connector, name="connector"),
    path("connectors/<int:pk>/edit/", connectors.edit_connector, name="edit-connector"),
    path("connectors/<int:pk>/delete/", connectors.remove_connector, name="delete-connector"),
    path("connectors/<int:pk>/host-key/", host_keys.host_key, name="connector-host-key"),
    path("secrets/", secrets.secrets, name="secrets"),
    path("secrets/new/", secrets.new_secret, name="new-secret"),
    path("secrets/<int:pk>/", secrets.secret, name="secret"),
    path("secrets/<int:pk>/rotate/", secrets.rotate_secret, name="rotate-secret"),
    path("secrets/<int:pk>/rename/", secrets.rename_secret, name="rename-secret"),
    path("secrets/<int:pk>/delete/", secrets.remove_secret, name="delete-secret"),
    path("files/", files.files, name="files"),
    path("files/deleted/", file_deletions.deletions, name="deleted-files"),
    path("files/deleted/<int:pk>/undo/", file_deletions.undo, name="undelete-files"),
    path("files/deleted/<int:pk>/forget/", file_deletions.forget, name="forget-files"),
    path("files/new/", file_texts.new_file, name="new-file"),
    path("files/new-folder/", file_places.new_folder, name="new-folder"),
    path("files/upload/", file_places.upload, name="upload-files"),
    path("files/check/", file_texts.check_text, name="check-file"),
    path("files/clean-up/", file_texts.clean_up, name="clean-up-file"),
    path("files/<int:pk>/", files.file, name="file"),
    path("files/<int:pk>/edit/", file_texts.edit_file, name="edit-file"),
    path("files/<int:pk>/download/", files.download, name="download-file"),
    path("files/<int:pk>/move/", file_places.move, name="move-file"),
    path("files/<int:pk>/delete/", file_places.delete, name="delete-file"),
    path("files/<int:pk>/history/", files.history, name="file-history"),
    path("files/<int:pk>/restore/<int:version>/", file_texts.restore, name="restore-file"),
]
