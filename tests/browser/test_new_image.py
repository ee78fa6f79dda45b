"""Deploying a new image from the page of a service, in a browser."""

import re

import pytest
from playwright.sync_api import Page, expect

from catalog.models import Service
from pipelines.models import Pipeline
from tests.browser.conftest import Visit

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_a_tag_and_one_click_lead_to_the_execution(visit: Visit, page: Page, demo: Pipeline) -> None:
    service = Service.objects.get(identifier="myapp")
    visit(f"/services/{service.pk}/deploy/")
    deploy = page.get_by_role("button", name=f"Deploy with {demo.name}")
    expect(deploy).to_be_visible()
    page.get_by_label("Image tag").fill("1.28")
    deploy.click()
    expect(page).to_have_url(re.compile(r"/deployments/[0-9a-f-]{36}/"))
