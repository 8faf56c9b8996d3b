"""What a template says, as a hash: the same for the same rendering, on every machine and in every version.

It covers all that a rendering or a choice depends on, and neither id, version, state, counts nor times. Of the project
only the last part counts: the rest of the path is different on every machine.
"""

from __future__ import annotations

from hashlib import blake2b

import msgspec

from warmstart.templates.values import WarmTemplate

_ENCODE = msgspec.json.Encoder(order="sorted").encode


def content_hash(template: WarmTemplate) -> str:
    """32 hexadecimal digits of what the template says."""
    said = {
        "name": template.name,
        "description": template.description,
        "task_type": template.task_type,
        "tags": template.tags,
        "agent": template.agent,
        "project": template.project.rstrip("/").rsplit("/", 1)[-1],
        "sources": template.sources,
        "tools": dict(template.tools),
        "allowed": template.allowed,
        "described_by": template.described_by,
        "seed": template.seed,
    }
    return blake2b(_ENCODE(said), digest_size=16).hexdigest()
