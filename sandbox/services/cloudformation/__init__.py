"""CloudFormation: stacks that create resources of the account, event by event."""
