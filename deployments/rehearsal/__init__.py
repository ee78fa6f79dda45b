"""Rehearsals: a pipeline's steps run against a private sandbox that is filled with reads of the real cluster.

A rehearsal is no execution. It has no rows of stages, steps, calls or locks, so no list, statistic, rollback,
notification or drift can mistake it for a run, and nothing has to exclude it.

It cannot touch AWS. The connector is used for reads alone, before the first step (`cluster_reads`); where
these go through delegates, their answers are those of a `PreviewRequest`. The AWS
calls of steps then go through `sandbox_access`, the only place that opens access, which takes a loopback
address and made-up credentials and nothing else. What is outside AWS is not rehearsed and says so.

The sandbox is one process, which ends with the request that started it. A rehearsal that breaks off
leaves nothing behind, and its end is unknown, never something better.
"""
