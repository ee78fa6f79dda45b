"""CloudFormation of the pretend account: stacks that make what is in it, event by event."""
