"""Event queues: one worker reads each, and passes the events of AWS to listeners."""
