"""Tests of imports from ecspresso and PipeCD."""
