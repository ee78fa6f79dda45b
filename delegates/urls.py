"""Addresses of the pages of this app."""

from django.urls import path

from delegates.pages import (
    configurations,
    connector_tests,
    delegate,
    delegate_decisions,
    delegates,
    installing,
    new_delegate,
    tasks,
    tokens,
)

urlpatterns = [
    path("delegates/", delegates.delegates, name="delegates"),
    path("delegates/<int:pk>/", delegate.delegate, name="delegate"),
    path("delegates/<int:pk>/edit/", delegate_decisions.edit_delegate, name="edit-delegate"),
    path("delegates/<int:pk>/disable/", delegate_decisions.disable_delegate, name="disable-delegate"),
    path("delegates/<int:pk>/delete/", delegate_decisions.remove_delegate, name="delete-delegate"),
    path("delegates/<int:pk>/approve/", delegate_decisions.approve_delegate, name="approve-delegate"),
    path("delegates/<int:pk>/reject/", delegate_decisions.reject_delegate, name="reject-delegate"),
    path("delegates/<int:pk>/enable/", delegate_decisions.enable_delegate, name="enable-delegate"),
    path("delegates/<int:pk>/drain/", delegate_decisions.drain_delegate, name="drain-delegate"),
    path("delegates/<int:pk>/blocks/<int:entry>/", delegate_decisions.lift_block, name="lift-block"),
    path("delegates/help/", installing.help_with_delegates, name="help-with-delegates"),
    path("delegates/<int:pk>/check/", tasks.check, name="check-delegate"),
    path("delegates/tasks/", tasks.tasks, name="delegate-tasks"),
    path("delegates/tasks/<uuid:pk>/", tasks.task, name="delegate-task"),
    path("delegates/tasks/<uuid:pk>/abort/", tasks.abort, name="abort-delegate-task"),
    path("connectors/<int:pk>/test/", connector_tests.test, name="test-connector"),
    path("connectors/<int:pk>/tests/<uuid:inquiry>/", connector_tests.under_way, name="connector-test"),
    path("delegates/new/", new_delegate.new_delegate, name="delegate-new"),
    path("delegates/<int:pk>/install/", new_delegate.install, name="install-delegate"),
    path("delegates/<int:pk>/install/download/", new_delegate.download, name="download-delegate"),
    path("delegates/<int:pk>/install/token/", new_delegate.change_token_of, name="change-token-of-delegate"),
    path("delegates/<int:pk>/install/waiting/", new_delegate.waiting, name="delegate-waiting"),
    path("delegates/configurations/", configurations.configurations, name="delegate-configurations"),
    path(
        "delegates/configurations/new/", configurations.new_configuration, name="new-delegate-configuration"
    ),
    path("delegates/configurations/<int:pk>/", configurations.configuration, name="delegate-configuration"),
    path(
        "delegates/configurations/<int:pk>/edit/",
        configurations.edit_configuration,
        name="edit-delegate-configuration",
    ),
    path(
        "delegates/configurations/<int:pk>/apply/",
        configurations.apply_configuration,
        name="apply-delegate-configuration",
    ),
    path(
        "delegates/configurations/<int:pk>/delete/",
        configurations.remove_configuration,
        name="delete-delegate-configuration",
    ),
    path("delegates/tokens/", tokens.tokens, name="delegate-tokens"),
    path("delegates/tokens/new/", tokens.new_token, name="new-delegate-token"),
    path("delegates/tokens/<int:pk>/", tokens.token, name="delegate-token"),
    path("delegates/tokens/<int:pk>/show/", tokens.show_token, name="show-delegate-token"),
    path("delegates/tokens/<int:pk>/rename/", tokens.rename_token, name="rename-delegate-token"),
    path("delegates/tokens/<int:pk>/revoke/", tokens.revoke_token, name="revoke-delegate-token"),
    path("delegates/tokens/<int:pk>/delete/", tokens.remove_token, name="delete-delegate-token"),
]
