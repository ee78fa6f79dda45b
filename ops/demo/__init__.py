"""Demo: users, credentials, and pipelines that deploy to the sandbox."""
