"""The form of an infrastructure has both methods of R184, and loses nothing that was typed."""

import pytest
from django.test import Client
from django.urls import reverse

from catalog.models import Environment, Infrastructure
from connectors.models import Connector
from rbac.models import User
from tests.fixtures.engine_driver import Drive

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def client(drive: Drive) -> Client:
    signed_in = Client()
    signed_in.force_login(User.objects.get(username="admin"))
    return signed_in


def _build_form(**more: str) -> dict[str, str]:
    connector = Connector.objects.get(identifier="sandbox_aws")
    return {"name": "Made", "connector": str(connector.pk), "region": "us-east-1", "cluster": ""} | more


def test_an_infrastructure_is_mapped_to_outputs_and_back_to_a_cluster_that_is_there(client: Client) -> None:
    environment = Environment.objects.get(identifier="dev")
    new = reverse("new-infrastructure", args=[environment.pk])
    assert b"Map Dynamically Provisioned Infrastructure" in client.get(new).content
    mapped = {"mapped_region": "<+provisioner.region>", "mapped_cluster": "<+provisioner.cluster>"}
    answer = client.post(new, _build_form(method="DYNAMIC", **mapped), follow=True)
    assert b"The provisioner of each stage creates its cluster." in answer.content
    assert b"Provisioned by each run" in answer.content
    infrastructure = Infrastructure.objects.get(identifier="made")
    target = (infrastructure.is_dynamic, infrastructure.region, infrastructure.cluster)
    assert target == (True, "<+provisioner.region>", "<+provisioner.cluster>")
    edit = reverse("edit-infrastructure", args=[environment.pk, infrastructure.pk])
    assert b"&lt;+provisioner.cluster&gt;" in client.get(edit).content
    form = _build_form(method="STATIC", cluster="demo", version=str(infrastructure.version), **mapped)
    assert client.post(edit, form).status_code == 302
    infrastructure.refresh_from_db()
    assert (infrastructure.is_dynamic, infrastructure.region, infrastructure.cluster) == (
        False,
        "us-east-1",
        "demo",
    )


def test_a_mapping_that_cannot_be_read_is_refused_beside_its_field(client: Client) -> None:
    new = reverse("new-infrastructure", args=[Environment.objects.get(identifier="dev").pk])
    mapped = {"mapped_region": "<+provisioner.region", "mapped_cluster": "orders"}
    answer = client.post(new, _build_form(method="DYNAMIC", **mapped))
    assert answer.status_code == 400
    form = answer.context["form"]
    assert set(form.errors) == {"mapped_region"}
    assert b"&lt;+provisioner.region" in answer.content
    answer = client.post(
        new, _build_form(method="DYNAMIC", mapped_region="us-east-1", mapped_cluster="orders")
    )
    assert "Map region and cluster to outputs" in str(answer.context["form"].errors["mapped_cluster"])
    answer = client.post(new, _build_form(cluster="<+provisioner.cluster>", identifier="other"))
    assert "only for dynamically provisioned infrastructure" in str(answer.context["form"].errors["cluster"])
    assert not Infrastructure.objects.filter(identifier__in=["made", "other"]).exists()
