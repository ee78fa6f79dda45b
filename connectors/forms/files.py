"""Forms of the file store."""

from typing import Any

from django import forms
from django.core.files.uploadedfile import UploadedFile

from connectors.operations.files import NOTE_CHARACTERS
from guards.limits import PATH_CHARACTERS, SPEC_BYTES
from web.forms.page_forms import ConfirmForm, PageForm, ScopeField
from web.forms.resource_forms import ScopedForm


class FileTextForm(PageForm):
    """Text of an existing file; `version` is the version that the edit started from."""

    content = forms.CharField(required=False, strip=False, widget=forms.Textarea)
    note = forms.CharField(
        required=False,
        max_length=NOTE_CHARACTERS,
        label="Comment",
        help_text="Shown in the history of the file.",
    )
    version = forms.IntegerField(min_value=0, widget=forms.HiddenInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, auto_id="file-%s", **kwargs)


class NewFileForm(ScopedForm):
    """Form for a new file."""

    in_scope = ScopeField(help_text="Resources in this scope and below can use the file.")
    path = forms.CharField(
        strip=False,
        max_length=int(PATH_CHARACTERS),
        help_text="Such as /web/task.yaml; missing folders are created.",
        widget=forms.TextInput(attrs={"class": "input mono", "spellcheck": "false"}),
    )
    content = forms.CharField(required=False, strip=False, widget=forms.Textarea)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, auto_id="file-%s", **kwargs)


class NewFolderForm(ScopedForm):
    """Form for a new folder."""

    in_scope = ScopeField()
    path = forms.CharField(
        strip=False,
        max_length=int(PATH_CHARACTERS),
        help_text="Such as /web/prod; missing folders are created.",
        widget=forms.TextInput(attrs={"class": "input mono", "spellcheck": "false"}),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, auto_id="file-%s", **kwargs)


class MoveFileForm(PageForm):
    """Form for a new path of a file or folder."""

    path = forms.CharField(
        strip=False,
        max_length=int(PATH_CHARACTERS),
        label="New path",
        help_text="Its last part is the name; missing folders are created.",
        widget=forms.TextInput(attrs={"class": "input mono", "spellcheck": "false"}),
    )
    although_used = forms.BooleanField(required=False, label="Move even though references to it will break")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, auto_id="file-%s", **kwargs)


class DeleteFileForm(ConfirmForm):
    """Confirmations for the deletion of a file or folder."""

    with_content = forms.BooleanField(required=False, label="Delete its content too")


class _MultipleFileInput(forms.ClearableFileInput):
    allow_multiple_selected = True


class _MultipleFileField(forms.FileField):
    """Field for several files; each is required and limited to the store's size limit."""

    widget = _MultipleFileInput

    def clean(self, data: Any, initial: Any = None) -> list[UploadedFile]:
        # Without choices the list is empty, so the field must be required explicitly.
        uploads = (data or [None]) if isinstance(data, list | tuple) else [data]
        cleaned = [super(_MultipleFileField, self).clean(upload, initial) for upload in uploads]
        for file in cleaned:
            if file.size > SPEC_BYTES:
                raise forms.ValidationError(f"{file.name} is larger than {SPEC_BYTES}.")
        return cleaned


class UploadFilesForm(ScopedForm):
    """Form for files from the user's machine."""

    in_scope = ScopeField()
    folder = forms.CharField(
        required=False,
        strip=False,
        max_length=int(PATH_CHARACTERS),
        help_text="Such as /web; the top of the scope if empty.",
        widget=forms.TextInput(attrs={"class": "input mono", "spellcheck": "false"}),
    )
    uploaded = _MultipleFileField(
        label="Files", allow_empty_file=True, help_text=f"Text files in UTF-8, {SPEC_BYTES} each at most."
    )
    replace = forms.BooleanField(
        required=False,
        label="Replace files of the same name",
        help_text="Their current versions stay in the history.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, auto_id="file-%s", **kwargs)
