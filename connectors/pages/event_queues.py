"""Pages of event queues: create, delete, and the template of a queue. Their connector lists them."""

from typing import Any

from django.http import HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from connectors.event_queue_template import STACK_FILE
from connectors.forms.event_queues import NewEventQueueForm
from connectors.models import Connector, EventQueue
from connectors.operations import create_event_queue, delete_event_queue
from connectors.pages.connectors import EDIT_PERMISSION, VIEW_PERMISSION, ConnectorPage
from web.forms.pages import PageRequest, get_visible, require_sign_in
from web.forms.resource_pages import Breadcrumb, CreateChildPage, DeletePage


def _get_queue(request: PageRequest, pk: int) -> EventQueue:
    return get_visible(request, VIEW_PERMISSION, EventQueue.objects.select_related("connector__scope"), pk=pk)


@require_sign_in
@require_safe
def download_stack(request: PageRequest) -> HttpResponse:
    """Return the CloudFormation template of a queue with its rule; it is the same for every connector."""
    headers = {"Content-Disposition": 'attachment; filename="slipway-events.yaml"'}
    return HttpResponse(STACK_FILE.read_bytes(), content_type="application/yaml", headers=headers)


class NewEventQueue(ConnectorPage, CreateChildPage[Connector]):
    """Add an event queue to a connector."""

    permission = EDIT_PERMISSION
    noun = "event queue"
    form_class = NewEventQueueForm
    done = "Event queue added. Workers read it within seconds."

    def save(self, form: NewEventQueueForm) -> EventQueue:
        return create_event_queue(actor=self.request.user, connector=self.object, **form.cleaned_data)


class DeleteEventQueue(DeletePage[EventQueue]):
    """Delete an event queue; the queue in AWS stays."""

    load = staticmethod(_get_queue)
    permission = EDIT_PERMISSION
    noun = "event queue"
    parents = ConnectorPage.parents
    text = "Slipway stops reading it and polls ECS as often as without events. The queue in AWS stays."
    done = "Event queue deleted."

    def get_breadcrumbs(self) -> list[Breadcrumb]:
        connector = self.object.connector
        return [*self.get_parents(), Breadcrumb(connector.name, reverse("connector", args=[connector.pk]))]

    def get_success_url(self) -> str:
        return self.get_breadcrumbs()[-1].url

    def perform(self, **values: Any) -> None:
        delete_event_queue(actor=self.request.user, queue=self.object)
