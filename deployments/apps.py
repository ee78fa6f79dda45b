"""The Django app of executions."""

from django.apps import AppConfig


class DeploymentsConfig(AppConfig):
    """Amazon ECS deployments."""

    name = "deployments"
    verbose_name = "Deployments"

    def ready(self) -> None:
        # Says what becomes of a call as a delegate takes it, answers or is lost.
        from delegates.owners import register_owner
        from deployments.delegated_calls import CallOwner
        from deployments.engine.doors import OWNER

        register_owner(OWNER, CallOwner())

        # What keeps a project from being archived.
        from deployments.busy import executions_in
        from rbac.busy import register_question

        register_question(executions_in)

        # What a run that waits for approval would do next.
        from deployments.engine.ahead import register_try_out
        from deployments.preview.remaining import run_remaining

        register_try_out(run_remaining)

        # And what becomes of the reads of a preview.
        from deployments import preview_reads, previews

        register_owner(preview_reads.OWNER, preview_reads.PreviewOwner(previews.go_on))

        # What pages hear of executions, and of what is worked out for people.
        from deployments.news import EXECUTIONS
        from deployments.preview_news import APPROVALS, PREVIEWS
        from web.news import enter

        enter(EXECUTIONS)
        enter(APPROVALS)
        enter(PREVIEWS)
