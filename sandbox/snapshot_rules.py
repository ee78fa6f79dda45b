"""Rules of an account that was filled with the resources of another: behaviors by image, and assumptions."""

import os
from collections.abc import Iterable

# The account of moto's answers, read with each call.
ACCOUNT_VARIABLE = "MOTO_ACCOUNT_ID"


class SnapshotRules:
    """Rules of a filled account; without a filled account, tags choose the behaviors as usual.

    Images of the filled task definitions run. All others, and the `images`, have the chosen behavior: they
    are what somebody deploys. Secrets and log groups are assumed to exist, because only their owner may read
    them.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.is_active = False
        self._behavior = ""
        self._images: frozenset[str] = frozenset()
        self._known: frozenset[str] = frozenset()
        os.environ.pop(ACCOUNT_VARIABLE, None)

    def activate(self, account: str, behavior: str, *, images: Iterable[str], known: Iterable[str]) -> None:
        """Let these images, and all that are not known, have a behavior of `sandbox.images`."""
        self.is_active = True
        os.environ[ACCOUNT_VARIABLE] = account
        self._behavior = behavior
        self._images, self._known = frozenset(images), frozenset(known)

    def get_behavior_name(self, image: str) -> str:
        """Return the name of an image's behavior; empty for one that runs."""
        is_new = image in self._images or image not in self._known
        return self._behavior if is_new else ""


# moto creates its back ends itself, per account and region, so shared state needs an import.
SNAPSHOT_RULES = SnapshotRules()
