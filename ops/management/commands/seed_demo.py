"""`manage.py seed_demo`: the demo's people, manifests and pipeline."""

import json
import time
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from ops.demo.pipelines import SandboxFacts
from ops.demo.seed import seed_demo

WAIT_SECONDS = 60.0


class Command(BaseCommand):
    """Command that creates missing demo data with the sandbox's names."""

    help = "Add the demo to an embedded installation. Existing resources are not changed."

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.SANDBOX_URL:
            raise CommandError("The demo belongs to the embedded mode: it deploys to the sandbox.")
        seed_demo(SandboxFacts.from_wire(_sandbox_seed()))


def _sandbox_seed() -> dict[str, Any]:
    url = f"{settings.SANDBOX_URL}/sandbox/seed"
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            with urlopen(url, timeout=5) as answer:  # noqa: S310 - the address is our own
                seed: dict[str, Any] = json.load(answer)
                return seed
        except (URLError, OSError) as exc:
            if time.monotonic() > deadline:
                raise CommandError(f"The sandbox does not answer at {url}: {exc}") from exc
            time.sleep(0.1)
