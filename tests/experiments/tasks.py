"""Inspect tasks for the tests of the lab: what a session sees of its home and its working copy."""

from __future__ import annotations

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import bash


@task
def look() -> Task:
    samples = [
        Sample(input=f"Look around, number {n}.", target="green", id=f"t{n}", files={"a.txt": str(n)}) for n in range(3)
    ]
    return Task(
        dataset=MemoryDataset(samples), setup=use_tools(bash()), solver=generate(), scorer=includes(), sandbox="local"
    )
