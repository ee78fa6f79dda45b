"""What every planted secret carries, so that one search finds all of them."""

import re

# Letters and digits alone: they stay as they are in JSON, in an address and in a shell.
MARKER = "Pl4ntedV4lue"

# The variable that names the file in which the processes of one test process tell it of finds.
FOUND = "SLIPWAY_TESTS_FOUND"


def planted(text: str) -> str:
    """A secret value for a test: `text` with the marker in front of each line."""
    return re.sub(r"(?m)^(?=.)", MARKER, text) or MARKER
