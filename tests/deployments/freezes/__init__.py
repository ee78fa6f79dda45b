"""Tests of deployment freezes."""
