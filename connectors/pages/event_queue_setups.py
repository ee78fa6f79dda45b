"""Pages of set-ups of events: start, stop and dismiss. Their connector shows the progress."""

import json
from typing import Any

from django.urls import reverse

from aws.policies import list_event_setup_actions
from connectors.event_queue_template import list_template_resources
from connectors.forms.event_queues import NewEventQueueSetupForm
from connectors.models import Connector, EventQueueSetup
from connectors.operations import (
    dismiss_event_queue_setup,
    start_event_queue_setup,
    stop_event_queue_setup,
)
from connectors.operations.event_queues import require_aws
from connectors.pages.connectors import EDIT_PERMISSION, VIEW_PERMISSION, ConnectorPage
from web.forms.pages import PageRequest, get_visible
from web.forms.resource_pages import Breadcrumb, ConfirmPage, CreateChildPage
from web.http.problems import BadInput


def _get_setup(request: PageRequest, pk: int) -> EventQueueSetup:
    rows = EventQueueSetup.objects.select_related("connector__scope")
    return get_visible(request, VIEW_PERMISSION, rows, pk=pk)


class NewEventQueueSetup(ConnectorPage, CreateChildPage[Connector]):
    """Show what a set-up creates and what it needs, and start it after a confirmation."""

    template_name = "connectors/event_queue_setup.html"
    permission = EDIT_PERMISSION
    title = "Set up events"
    here = "Set up events"
    button = "Create stack"
    refusal_title = "Could not set up events"
    done = "Slipway creates the stack within seconds. The progress is below."

    def build_form(self) -> NewEventQueueSetupForm:
        posted = self.request.POST if self.request.method == "POST" else None
        initial = {
            name: self.request.GET[name] for name in ("region", "stack_name") if self.request.GET.get(name)
        }
        return NewEventQueueSetupForm(posted, connector=self.object, initial=initial)

    def get_context(self, form: NewEventQueueSetupForm) -> dict[str, Any]:
        statement = {"Effect": "Allow", "Action": list_event_setup_actions(), "Resource": "*"}
        policy = {"Version": "2012-10-17", "Statement": [statement]}
        return {
            "connector": self.object,
            "obstacle": self._find_obstacle(),
            "resources": list_template_resources(),
            "policy": json.dumps(policy, indent=2),
        }

    def _find_obstacle(self) -> str:
        try:
            require_aws(self.object)
        except BadInput as problem:
            return problem.detail
        return ""

    def save(self, form: NewEventQueueSetupForm) -> EventQueueSetup:
        return start_event_queue_setup(
            actor=self.request.user,
            connector=self.object,
            region=form.cleaned_data["region"],
            stack_name=form.cleaned_data["stack_name"],
        )


class _SetupConfirmPage(ConfirmPage[EventQueueSetup]):
    """Confirmation page of an operation on a set-up."""

    load = staticmethod(_get_setup)
    permission = EDIT_PERMISSION
    parents = ConnectorPage.parents

    def get_breadcrumbs(self) -> list[Breadcrumb]:
        connector = self.object.connector
        return [*self.get_parents(), Breadcrumb(connector.name, reverse("connector", args=[connector.pk]))]


class StopEventQueueSetup(_SetupConfirmPage):
    """End a set-up that runs."""

    verb = "Stop"
    noun = "set-up"
    text = (
        "Slipway makes no more calls for this set-up, and adds no event queue. A stack that exists stays in "
        "CloudFormation: set up events again to continue with it, or delete it there."
    )
    done = "Set-up stopped."

    def get_name(self) -> str:
        return f"the set-up of {self.object.stack_name}"

    def perform(self, **values: Any) -> None:
        stop_event_queue_setup(actor=self.request.user, setup=self.object)


class DismissEventQueueSetup(_SetupConfirmPage):
    """Hide a set-up that failed or was stopped from the page of its connector."""

    verb = "Dismiss"
    noun = "message"
    text = "The message is no longer shown at the connector. Nothing changes in AWS."
    done = "Message dismissed."

    def get_name(self) -> str:
        return f"the message about {self.object.stack_name}"

    def perform(self, **values: Any) -> None:
        dismiss_event_queue_setup(actor=self.request.user, setup=self.object)
