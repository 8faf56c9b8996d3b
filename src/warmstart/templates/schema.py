"""The tables of the package `templates`; their SQL is in `migrations`.

A version of a template is a row that is never written over; one that was withdrawn has no `body` any more. The row of
the template itself says which version is the newest, and holds in `head` what a choice among thousands needs.
`template_sources` names for every version that can still be read the sessions that it came from, so that all that came
from one is found. An id stays in `template_ids` when its template is deleted, so that it is never given again.

Triggers count the uses of a template in its row, and count up `template_revision` with every write that a summary
could show: whoever writes, both are right.
"""

from __future__ import annotations

from warmstart.storage.schema import migrations_of

MIGRATIONS = migrations_of("templates", __file__)
