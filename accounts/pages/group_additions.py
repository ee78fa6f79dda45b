"""Base of pages that search for something, and add what is selected to a group."""

from collections.abc import Sequence
from typing import Any, ClassVar, Final, TypeVar

from web.forms.lists import read_search_text
from web.forms.resource_pages import FormPage

Row = TypeVar("Row")
MAX_CANDIDATES: Final = 50
_NAMED: Final = 3


class AddToGroupPage(FormPage[Row]):
    """Search for candidates, and add the selected ones to a group; `save` returns them."""

    # The form's field with the selection.
    field: ClassVar[str]

    def list_candidates(self, text: str, limit: int) -> Sequence[Any]:
        """Return the first candidates that match the search text."""
        raise NotImplementedError

    def get_context(self, form: Any) -> dict[str, Any]:
        """Return the group, the candidates, and which of them are selected."""
        text = read_search_text(self.request)
        candidates = self.list_candidates(text, MAX_CANDIDATES + 1)
        return {
            "group": self.object,
            "text": text,
            "candidates": candidates[:MAX_CANDIDATES],
            "has_more": len(candidates) > MAX_CANDIDATES,
            "selected": set(form.data.getlist(self.field)) if form.is_bound else set(),
        }

    def get_done_message(self, saved: Sequence[Any]) -> str:
        """Return the names of the first ones that were added."""
        more = f" and {len(saved) - _NAMED} more" if len(saved) > _NAMED else ""
        return f"{', '.join(map(str, saved[:_NAMED]))}{more} added to {self.get_page_name()}."
