"""Tests of the AWS door."""
