"""Commands `login`, `logout` and `whoami`."""

import os
import sys
from dataclasses import replace
from enum import StrEnum
from typing import Annotated

import typer

from cli.browser_sign_in import sign_in_by_browser
from cli.client import ApiClient, is_loopback
from cli.console import print_fields, print_json, print_text
from cli.credentials import (
    KEY_VARIABLE,
    SignIn,
    delete_sign_in,
    find_stored_sign_in,
    get_stored_url,
    normalize_url,
    store_sign_in,
    validate_key,
)
from cli.errors import CliError, ExitCode
from cli.options import JsonOption, UrlOption, connect
from cli.text import clean_line


class SignInWay(StrEnum):
    """Way to sign in."""

    KEY = "key"
    BROWSER = "browser"
    CODE = "code"


def log_in(
    url: Annotated[
        str,
        typer.Option(
            "--url", help="URL of Slipway, such as https://slipway.example.com.", show_default=False
        ),
    ] = "",
    is_key: Annotated[bool, typer.Option("--key", help="Enter an API key.")] = False,
    is_browser: Annotated[
        bool, typer.Option("--browser", help="Approve the sign-in in a browser of this machine.")
    ] = False,
    is_code: Annotated[
        bool, typer.Option("--code", help="Approve it in any browser, and enter the code that it shows.")
    ] = False,
) -> None:
    """Sign in, and store an API key for this user.

    On a terminal, a page of Slipway asks you to approve a personal API key. Otherwise the key is read from
    SLIPWAY_API_KEY or standard input. It is stored in a file that only you can read.
    """
    ways = [way for way, is_chosen in zip(SignInWay, (is_key, is_browser, is_code), strict=True) if is_chosen]
    if len(ways) > 1:
        raise CliError("Choose one of --key, --browser and --code.", code=ExitCode.USAGE)
    address = normalize_url(url or get_stored_url() or _ask_url())
    if address.startswith("http://") and not is_loopback(address):
        warning = "http:// does not encrypt the API key. Use https:// outside this machine."
        print_text(warning, style="yellow", is_error=True)
    former = find_stored_sign_in(address)
    sign_in = _sign_in(address, ways[0] if ways else _choose_way())
    user = ApiClient(sign_in).get("me")
    path = store_sign_in(replace(sign_in, username=clean_line(user["username"])))
    print_text(f"Signed in to {address} as {user['username']}. The API key is stored in {path}.")
    if former is not None and former.key != sign_in.key:
        _revoke_former_key(former)


def log_out(url: UrlOption = "") -> None:
    """Delete the stored API key of a server, and revoke it if the sign-in by browser has created it."""
    address = normalize_url(url) if url else get_stored_url()
    sign_in = find_stored_sign_in(address)
    if sign_in is None:
        raise CliError("You are not signed in.", code=ExitCode.NOT_SIGNED_IN)
    # Revoked first: without the stored key, nothing could do it later.
    try:
        is_revoked = _revoke_key(sign_in)
    finally:
        delete_sign_in(address)
    if is_revoked:
        print_text(f"Signed out of {address}. The API key is revoked.")
        return
    print_text(
        f"Signed out of {address}. The key itself still works until you revoke it: {address}/access/keys/"
    )


def who_am_i(url: UrlOption = "", as_json: JsonOption = False) -> None:
    """Show the server and the user of the API key."""
    client = connect(url)
    user = client.get("me")
    server = client.sign_in.url
    if as_json:
        print_json({"url": server, **user})
        return
    print_fields(
        [("Server", server), ("User", user["username"]), ("Name", user["name"]), ("Email", user["email"])]
    )


def _revoke_former_key(former: SignIn) -> None:
    """Revoke the key that a new sign-in replaces: no command could do it later."""
    try:
        if _revoke_key(former):
            print_text("The former API key is revoked.")
    except CliError as error:
        print_text(f"The former API key is not revoked: {error.message}", style="yellow", is_error=True)
        print_text(error.next_step, is_error=True)


def _revoke_key(sign_in: SignIn) -> bool:
    """Revoke the key of a sign-in by browser; False for one that was entered. Raises `CliError`."""
    if sign_in.key_id is None:
        return False
    try:
        ApiClient(sign_in).send("DELETE", f"api-keys/{sign_in.key_id}")
    except CliError as error:
        if error.code == ExitCode.NOT_SIGNED_IN:
            # It was revoked before, or has expired.
            return True
        raise CliError(
            f"The API key for {sign_in.url} could not be revoked: {error.message}",
            next_step=f"Revoke it: {sign_in.url}/access/keys/",
            code=error.code,
        ) from error
    return True


def _choose_way() -> SignInWay:
    has_key = bool(os.environ.get(KEY_VARIABLE))
    return SignInWay.BROWSER if sys.stdin.isatty() and not has_key else SignInWay.KEY


def _sign_in(address: str, way: SignInWay) -> SignIn:
    if way is SignInWay.KEY:
        key = os.environ.get(KEY_VARIABLE, "")
        return SignIn(address, validate_key(key) if key else _read_key())
    return sign_in_by_browser(address, is_local=way is SignInWay.BROWSER)


def _ask_url() -> str:
    if not sys.stdin.isatty():
        raise CliError(
            "The URL of Slipway is missing.",
            next_step="Name it with --url or SLIPWAY_URL.",
            code=ExitCode.USAGE,
        )
    return str(typer.prompt("URL of Slipway", err=True))


def _read_key() -> str:
    """Return the key from a hidden prompt or from standard input."""
    is_terminal = sys.stdin.isatty()
    key = typer.prompt("API key", hide_input=True, err=True) if is_terminal else sys.stdin.readline()
    return validate_key(key)
