"""Addresses of the pages of this app."""

from django.urls import path

from connectors.views import connectors, file_places, file_texts, files

urlpatterns = [
    path("connectors/", connectors.connectors, name="connectors"),
    path("files/", files.files, name="files"),
    path("files/new/", file_texts.new_file, name="new-file"),
    path("files/new-folder/", file_places.new_folder, name="new-folder"),
    path("files/upload/", file_places.upload, name="upload-files"),
    path("files/check/", file_texts.check_text, name="check-file"),
    path("files/<int:pk>/", files.file, name="file"),
    path("files/<int:pk>/edit/", file_texts.edit_file, name="edit-file"),
    path("files/<int:pk>/download/", files.download, name="download-file"),
    path("files/<int:pk>/move/", file_places.move, name="move-file"),
    path("files/<int:pk>/delete/", file_places.delete, name="delete-file"),
    path("files/<int:pk>/history/", files.history, name="file-history"),
    path("files/<int:pk>/restore/<int:version>/", file_texts.restore, name="restore-file"),
]
