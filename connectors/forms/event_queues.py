"""Form of a new event queue."""

from django import forms

from connectors.forms.base import MONOSPACE_ATTRIBUTES
from web.forms.page_forms import PageForm


class NewEventQueueForm(PageForm):
    """Address of a queue and its region."""

    queue_url = forms.CharField(
        max_length=400,
        label="Queue URL",
        help_text="As SQS shows it. Only Slipway may read the queue.",
        widget=forms.TextInput(
            attrs={
                **MONOSPACE_ATTRIBUTES,
                "placeholder": "https://sqs.eu-central-1.amazonaws.com/123456789012/slipway-events",
            }
        ),
    )
    region = forms.CharField(
        max_length=64,
        required=False,
        help_text="Empty: the region in the URL.",
        widget=forms.TextInput(attrs={**MONOSPACE_ATTRIBUTES, "placeholder": "eu-central-1"}),
    )
