"""Tests of the pages of services, environments and infrastructures."""
