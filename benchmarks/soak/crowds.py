"""Crowds of a soak: each minute some people open pages of a web server at once."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from benchmarks.soak.site import Site
from tests.faults.installation import Answer

PEOPLE: Final = 16
PAUSE: Final = 60.0
PAGES: Final = ("/", "/deployments/", "/pipelines/", "/delegates/")
WEBS: Final = 2


@dataclass
class Crowds:
    """A thread that sends a crowd to each web server in turn, and what it was answered.

    A web server keeps for good a part of what most requests at once have needed. Without crowds, the memory
    of a soak grows with every new peak of its load, and nobody can tell that from a leak.
    """

    site: Site
    answers: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Send nobody any more, and wait for those who were sent."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(60)

    def _run(self) -> None:
        cookie = ""
        with ThreadPoolExecutor(PEOPLE) as people:
            for web in self._list_turns():
                cookie = cookie or self._sign_in()
                if cookie:
                    list(people.map(self._build_visit(web, cookie), range(PEOPLE)))

    def _list_turns(self) -> Iterator[int]:
        """Yield the number of a web server after each pause, until the end."""
        turn = 0
        while not self._stopping.wait(PAUSE):
            yield turn % WEBS
            turn += 1

    def _sign_in(self) -> str:
        """Return the cookie of a session; nothing if a fault is in the way."""
        try:
            answer = self.site.installation.sign_in()
        except (LookupError, OSError):
            return ""
        return answer.cookie if answer.status == 302 else ""

    def _build_visit(self, web: int, cookie: str) -> Callable[[int], None]:
        def visit(number: int) -> None:
            path = PAGES[number % len(PAGES)]
            answer = self.site.installation.request("GET", path, web=web, Cookie=cookie)
            self.record(path, answer)

        return visit

    def record(self, path: str, answer: Answer) -> None:
        """Count an answer; what no fault explains is an error."""
        self.answers[f"page {answer.status}"] += 1
        # Without a database the answer is 503, from a killed server there is none.
        if answer.status not in (0, 200, 503):
            self.errors.append(f"{path} was answered {answer.status}: {answer.body[:200]!r}")
