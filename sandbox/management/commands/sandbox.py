"""`manage.py sandbox`: run the simulated AWS account."""

from argparse import Namespace
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from sandbox.server import add_arguments, build_options, serve


class Command(BaseCommand):
    """Serves any AWS client on loopback until it is interrupted."""

    help = "Run the simulated AWS account on 127.0.0.1."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        add_arguments(parser)

    def handle(self, *_: Any, **options: Any) -> None:
        serve(build_options(Namespace(**options)))
