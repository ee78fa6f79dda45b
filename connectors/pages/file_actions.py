"""Pages of file actions: create folder, upload, move, delete."""

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from django.contrib import messages
from django.core.files.uploadedfile import UploadedFile
from django.db import transaction
from django.template.defaultfilters import pluralize
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.html import format_html

from connectors.file_store import filter_folder_contents
from connectors.forms.files import DeleteFileForm, MoveFileForm, NewFolderForm, UploadFilesForm
from connectors.models import FileNode
from connectors.operations import create_folder, delete_file, move_file, save_file
from connectors.operations.file_deletions import DELETED_FILE_DAYS
from connectors.pages.files import EDIT_PERMISSION, get_node
from connectors.usages import find_usages
from rbac.models import Scope, User
from web.forms.page_forms import ConfirmForm
from web.forms.resource_pages import CreatePage, DeletePage, FormPage, ResourcePage
from web.http.problems import BadInput, VersionConflict
from web.usages import ResourceUsages

DELETE_PERMISSION: Final = "core_file_delete"


class FilePage(ResourcePage[FileNode]):
    """A page about a file or folder."""

    load = staticmethod(get_node)
    parents = (("Files", "files"),)
    detail = "file"

    def get_page_name(self) -> str:
        return self.object.path

    def get_noun(self) -> str:
        return "folder" if self.object.is_folder else "file"


class FileFormPage(CreatePage[FileNode]):
    """A page that creates files or folders; its form starts with the scope and folder of the query."""

    permission = EDIT_PERMISSION
    parents = (("Files", "files"),)
    detail = "file"
    # The form's field with the folder.
    folder_field: ClassVar[str]

    def get_form_options(self) -> dict[str, Any]:
        query = {"in_scope": self.request.GET.get("in"), self.folder_field: self.request.GET.get("path")}
        initial = {name: value for name, value in query.items() if value}
        return super().get_form_options() | {"initial": initial}


class NewFolder(FileFormPage):
    """Create a folder."""

    noun = "folder"
    form_class = NewFolderForm
    folder_field = "path"

    def save(self, form: NewFolderForm) -> FileNode:
        data = form.cleaned_data
        return create_folder(actor=self.request.user, scope=data["in_scope"], path=data["path"])


class UploadFiles(FileFormPage):
    """Save files from the user's machine: all of them, or none if one is refused."""

    title = "Upload files"
    here = "Upload"
    button = "Upload files"
    refusal_title = "Could not upload"
    form_class = UploadFilesForm
    folder_field = "folder"

    def save(self, form: UploadFilesForm) -> FileNode:
        data = form.cleaned_data
        saved = _save_uploads(
            self.request.user, data["in_scope"], data["folder"], data["uploaded"], replace=data["replace"]
        )
        uploaded = saved[0].path if len(saved) == 1 else f"{len(saved)} files"
        messages.success(self.request, f"Uploaded {uploaded}.")
        return saved[0]


class MoveFile(FilePage, FormPage[FileNode]):
    """Rename or move a file or folder, with its references shown first."""

    template_name = "connectors/files/move.html"
    permission = EDIT_PERMISSION
    verb = "Move"
    here = "Rename or move"
    button = "Move"
    refusal_title = "Could not move"
    form_class = MoveFileForm

    def get_hint(self) -> str:
        content = "Everything in the folder moves with it. " if self.object.is_folder else ""
        return f"{content}The history is kept."

    def get_form_options(self) -> dict[str, Any]:
        return {"initial": {"path": self.object.path}}

    def get_context(self, form: MoveFileForm) -> dict[str, Any]:
        uses = find_usages(self.object, self.request.user)
        return {"heading": f"Rename or move {self.object.name}", "uses": uses}

    def save(self, form: MoveFileForm) -> FileNode:
        self.old_path = self.object.path
        move_file(actor=self.request.user, node=self.object, **form.cleaned_data)
        return self.object

    def get_done_message(self, saved: FileNode) -> str:
        return f"{self.old_path} is {saved.path} now."


class DeleteFile(FilePage, DeletePage[FileNode]):
    """Delete a file or folder, with its content only after confirmation."""

    permission = DELETE_PERMISSION
    form_class = DeleteFileForm
    done = '{name} deleted. <a href="{undo}">Restore</a>'
    usage_title = "Still in use"
    usage_advice = "Their next deployment fails until you change the reference."
    although_used = "Delete anyway. References to it will break."

    @cached_property
    def content_count(self) -> int:
        """Return the number of files and folders in the folder."""
        rows = FileNode.objects.filter(scope=self.object.scope)
        return filter_folder_contents(rows, self.object.path).count() if self.object.is_folder else 0

    def get_usages(self) -> ResourceUsages:
        return find_usages(self.object, self.request.user)

    def get_texts(self) -> list[str]:
        node, count = self.object, self.content_count
        if not node.is_folder:
            text = f"The file is deleted with its {node.version} version{pluralize(node.version)}."
        elif count:
            text = f"The folder is deleted, and with it {count} file{pluralize(count)} and folders in it."
        else:
            text = "The folder is deleted."
        return [f"{text} It can be restored for {DELETED_FILE_DAYS} days."]

    def build_form(self) -> ConfirmForm:
        form = super().build_form()
        if not self.content_count:
            del form.fields["with_content"]
        return form

    def perform(self, **values: Any) -> None:
        delete_file(actor=self.request.user, node=self.object, **values)

    def get_done_message(self, name: str) -> str:
        return format_html(self.done, name=name, undo=reverse("deleted-files"))


def _save_uploads(
    actor: User, scope: Scope, folder: str, files: Sequence[UploadedFile], *, replace: bool
) -> list[FileNode]:
    with transaction.atomic():
        return [_save_upload(actor, scope, folder, file, replace=replace) for file in files]


def _save_upload(actor: User, scope: Scope, folder: str, file: UploadedFile, *, replace: bool) -> FileNode:
    path = f"{folder.rstrip('/')}/{file.name}"
    try:
        content = file.read().decode("utf-8-sig")
        return save_file(
            actor=actor,
            scope=scope,
            path=path,
            content=content,
            note="Uploaded",
            expected_version=None if replace else 0,
        )
    except UnicodeDecodeError as exc:
        message = f"{file.name} is not UTF-8 text: byte {exc.start + 1} is not valid."
    except VersionConflict:
        message = f"There is already a file {path}. Choose to replace it, or rename yours."
    except BadInput as problem:
        message = f"{file.name}: {problem.detail}"
    raise BadInput(message, errors=[{"path": "uploaded", "message": message}])
