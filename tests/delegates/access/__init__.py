"""Tests of lookups of AWS resources and images through delegates."""
