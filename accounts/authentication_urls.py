"""URLs of sign-in and of a user's own account."""

from django.urls import path

from accounts.pages import (
    account,
    account_recovery,
    passkeys,
    sign_in,
    single_sign_on,
)

urlpatterns = [
    path("sign-in/", sign_in.sign_in, name="sign-in"),
    path("sign-in/code/", account_recovery.second_step, name="second-step"),
    path("sign-in/code/options/", sign_in.second_step_options, name="second-step-options"),
    path("sign-in/passkey/", sign_in.sign_in_with_passkey, name="passkey-sign-in"),
    path("sign-in/passkey/options/", sign_in.sign_in_options, name="passkey-sign-in-options"),
    path("sign-in/provider/", single_sign_on.begin_sign_on, name="single-sign-on"),
    path("sign-in/provider/callback/", single_sign_on.handle_callback, name="single-sign-on-callback"),
    path("sign-out/", sign_in.sign_out, name="sign-out"),
    path("forgotten-password/", account_recovery.forgotten_password, name="forgotten-password"),
    path("new-password/", account_recovery.new_password, name="new-password"),
    path(
        "new-password/<str:number>/<str:token>/", account_recovery.new_password_link, name="new-password-link"
    ),
    path("account/", account.account, name="account"),
    path("account/password/", account.password, name="change-password"),
    path("account/two-factor/", account.second_factor, name="second-factor"),
    path("account/two-factor/off/", account.turn_off, name="turn-off-second-factor"),
    path("account/recovery-codes/", account.renew_codes, name="renew-recovery-codes"),
    path("account/passkeys/", passkeys.list_own_passkeys, name="passkeys"),
    path("account/passkeys/new/", passkeys.new_passkey, name="new-passkey"),
    path("account/passkeys/new/options/", passkeys.new_passkey_options, name="new-passkey-options"),
    path("account/passkeys/proof/", passkeys.proof_options, name="passkey-proof-options"),
    path("account/passkeys/<int:pk>/rename/", passkeys.rename_passkey, name="rename-passkey"),
    path("account/passkeys/<int:pk>/remove/", passkeys.remove_passkey, name="remove-passkey"),
    path("account/sessions/", account.sessions, name="sessions"),
    path("account/sessions/end/", account.end_sessions, name="end-sessions"),
    path("account/sessions/<int:pk>/end/", account.end_one_session, name="end-session"),
    path("account/provider/link/", single_sign_on.link_account, name="link-sign-on"),
    path("account/provider/unlink/", single_sign_on.unlink_account, name="unlink-sign-on"),
    path("admin/login/", sign_in.admin_sign_in, name="admin-sign-in"),
    path("admin/password_change/", sign_in.admin_password, name="admin-change-password"),
]
