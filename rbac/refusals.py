"""What an operation refuses in the admin site is said above the form, with what was entered still in it."""

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
else:
    ModelAdmin = admin.ModelAdmin


class RefusingAdmin(ModelAdmin):
    """Shows a `ValidationError` of an operation as the framework shows its own."""

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> Any:
        try:
            return super().changeform_view(request, object_id, form_url, extra_context)
        except ValidationError as refusal:
            # What the operation did is rolled back; the form is gone through again, to show why.
            request.refusal = refusal  # type: ignore[attr-defined]
            return super().changeform_view(request, object_id, form_url, extra_context)

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change=change, **kwargs)
        refusal: ValidationError | None = getattr(request, "refusal", None)
        return form if refusal is None else _refused(form, refusal)

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        try:
            return super().delete_view(request, object_id, extra_context)
        except ValidationError as refusal:
            for sentence in refusal.messages:
                self.message_user(request, sentence, messages.ERROR)
            return HttpResponseRedirect(request.path)


def _refused(form: type[forms.BaseForm], refusal: ValidationError) -> type[forms.BaseForm]:
    class RefusedForm(form):  # type: ignore[misc, valid-type]
        def _post_clean(self) -> None:
            super()._post_clean()
            by_field = refusal.message_dict if hasattr(refusal, "error_dict") else {"": refusal.messages}
            for field, sentences in by_field.items():
                for sentence in sentences:
                    self.add_error(field if field in self.fields else None, sentence)

    return RefusedForm
