"""Every named address about the installation itself, with all that can be asked of it."""

from typing import Any

from tests.api.extra_objects import acceptance_run
from tests.api.requests import Ask, Row, allow_get, get
from tests.api.required_access import ACCOUNT, Needs
from tests.api.sample_project import World

MANAGE = "core_account_edit"


def build_need(done: int = 200) -> Needs:
    return Needs(MANAGE, done, at=ACCOUNT)


def post_form(done: int) -> Ask:
    return Ask("post", build_need(done), is_form=True)


def imageless_run(world: World) -> dict[str, Any]:
    """An image without a tag is refused before AWS is asked for anything."""
    return {"connector": world.connector.identifier, "cluster": "demo", "image": "nginx"}


INSTALLATION: dict[str, Row] = {
    "system": allow_get(build_need()),
    "retention": allow_get(build_need()),
    "acceptance-runs": allow_get(build_need()),
    # What is posted lacks everything.
    "new-acceptance-run": Row((get(build_need()), post_form(400))),
    "acceptance-clusters": allow_get(build_need()),
    "acceptance-run": allow_get(build_need(), acceptance_run),
    "acceptance-report": allow_get(build_need(), lambda world: {**acceptance_run(world), "suffix": "md"}),
    # The run has ended, and left nothing.
    "cancel-acceptance-run": Row((get(build_need()), post_form(409)), acceptance_run),
    "delete-acceptance-leftovers": Row((get(build_need()), post_form(409)), acceptance_run),
    "api-acceptance-runs": Row((get(build_need()), Ask("post", build_need(400), body=imageless_run))),
    "api-acceptance-plan": Row((Ask("post", build_need(400), body=imageless_run),)),
    "api-acceptance-run": allow_get(build_need(), acceptance_run),
    "api-cancel-acceptance-run": Row((Ask("post", build_need(409)),), acceptance_run),
    "api-delete-acceptance-leftovers": Row((Ask("post", build_need(409)),), acceptance_run),
}
