"""`manage.py bootstrap`: the first administrator, organization, service account and API key."""

import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from ops.bootstrap import BootstrapNames, BootstrapResult, bootstrap


class Command(BaseCommand):
    """Command for the first start; run again, it creates what is missing and changes nothing else."""

    help = (
        "Create the first administrator, organization, service account and API key, without questions. The "
        "password and the API key are printed once. What exists stays as it is."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--administrator", default="admin", help="user name (default: admin)")
        parser.add_argument("--email", default="", help="e-mail address of the administrator")
        parser.add_argument("--organization", default="default", help="identifier (default: default)")
        parser.add_argument(
            "--service-account", default="automation", help="identifier (default: automation)"
        )
        parser.add_argument(
            "--replace-secrets",
            action="store_true",
            help="set a new password and a new API key where they exist; the old ones end at once",
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        names = BootstrapNames(
            administrator=options["administrator"],
            email=options["email"],
            organization=options["organization"],
            service_account=options["service_account"],
        )
        try:
            with transaction.atomic():
                result = bootstrap(names, replaces_secrets=options["replace_secrets"])
                # Before the end of the transaction: a secret that could not be printed is not stored.
                self.stdout.write(_format_json(result) if options["json"] else _format_text(result))
                self.stdout.flush()
        except ValidationError as exc:
            raise CommandError(_format_problem(exc)) from exc


def _format_problem(problem: ValidationError) -> str:
    """Return the messages, with the field of each: several names are given at once."""
    if not hasattr(problem, "error_dict"):
        return " ".join(problem.messages)
    by_field = problem.message_dict.items()
    return "; ".join(f"{field}: {' '.join(messages)}" for field, messages in by_field)


def _format_json(result: BootstrapResult) -> str:
    return json.dumps({"url": settings.PUBLIC_URL, **asdict(result)})


def _format_text(result: BootstrapResult) -> str:
    kept = "exists, unchanged (--replace-secrets sets a new one)"
    lines = [
        f"URL              {settings.PUBLIC_URL}",
        f"Administrator    {result.administrator}",
        f"Password         {result.password or kept}",
        f"Organization     {result.organization}",
        f"Service account  {result.service_account}",
        f"API key          {result.api_key or kept}",
    ]
    if result.password or result.api_key:
        lines.append("The password and the API key are not shown again. Keep them in a password manager.")
    return "\n".join(lines)
