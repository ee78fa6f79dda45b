"""Forms of event queues: one that exists, and one that Slipway sets up."""

from typing import Any

from django import forms

from connectors.forms.base import MONOSPACE_ATTRIBUTES
from connectors.models import Connector
from connectors.operations.event_queue_setups import NAME_CHARACTERS, get_default_stack_name
from connectors.specs.aws import parse_aws_spec
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


class NewEventQueueSetupForm(PageForm):
    """Region and name of a stack, and the confirmation that Slipway may create it."""

    region = forms.CharField(
        max_length=64,
        help_text="Where the ECS services run. Each region has its own queue.",
        widget=forms.TextInput(attrs=MONOSPACE_ATTRIBUTES),
    )
    stack_name = forms.CharField(
        max_length=NAME_CHARACTERS,
        help_text="Also the name of the queue.",
        widget=forms.TextInput(attrs=MONOSPACE_ATTRIBUTES),
    )
    confirmed = forms.BooleanField(label="Create these resources in the AWS account of the connector")

    def __init__(self, *args: Any, connector: Connector, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["region"].initial = parse_aws_spec(connector.spec).test_region
        self.fields["stack_name"].initial = get_default_stack_name(connector)
