"""A template as one file that another person can read, check and import: plain JSON, redacted, with a hash.

The file holds all that a rendering depends on, and where it came from: sessions by their ids, no paths and no names of
this machine's people. What is imported was checked like everything else, is known by its origin, and is quarantined
until somebody promotes it. Nothing in a file is a path, a command or a query to us.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from warmstart.errors import InvalidTemplate, WarmstartError
from warmstart.profile.values import TaskType
from warmstart.redact.redactor import Redactor
from warmstart.storage.files import write_private
from warmstart.templates import plain_json
from warmstart.templates.allowlist import showable
from warmstart.templates.hashing import content_hash
from warmstart.templates.items import edited_by, is_edit
from warmstart.templates.shapes import plain, shaped
from warmstart.templates.store import SQLTemplateStore
from warmstart.templates.texts import redacted
from warmstart.templates.validation import check
from warmstart.templates.values import SessionSeed, Source, WarmTemplate
from warmstart.text.untrusted import find_controls, find_invisible

FORMAT = "warmstart-template"
FORMAT_VERSION = 1
_IMPORTED = "imported from "
_MOST_LINES = 100  # problems of a file that are told one by one
_LONGEST_NAME = 120  # characters of a file's name that are told


@dataclass(frozen=True, slots=True, kw_only=True)
class _Provenance:
    """Where a template was exported from."""

    id: str = ""
    version: int = 0
    origin: str = ""
    created_at: datetime | None = None
    updated_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Content:
    """What a template says, as a file has it."""

    name: str
    description: str
    task_type: TaskType
    tags: tuple[str, ...]
    project: str
    agent: str
    sources: tuple[str, ...]
    tools: dict[str, str]
    allowed: tuple[str, ...]
    described_by: str
    seed: SessionSeed


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """A whole file."""

    format: str
    format_version: int
    content_hash: str
    provenance: _Provenance
    template: _Content


# -- out


def export_text(template: WarmTemplate) -> str:
    """The file of a template, as text."""
    shared = redacted(_impersonal(showable(template)), Redactor())
    content = {name: getattr(shared, name) for name in _Content.__slots__}
    provenance = {name: getattr(shared, name) for name in _Provenance.__slots__}
    file = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "content_hash": content_hash(shared),
        "provenance": plain(provenance),
        "template": plain(content),
    }
    return json.dumps(file, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def export(template: WarmTemplate, path: Path, *, overwrite: bool = False) -> None:
    """Write the file of a template, whole or not at all. Raises `WarmstartError` where one is already."""
    try:
        write_private(path, [export_text(template)], overwrite=overwrite)
    except FileExistsError as error:
        raise WarmstartError(f"{str(path)!r} is there already; give another name, or say --overwrite") from error
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise WarmstartError(f"{str(path)!r} cannot be written ({why}); give another place") from error


def _impersonal(template: WarmTemplate) -> WarmTemplate:
    """The template without what tells about this machine and its people: a project's path, the names of editors."""
    project = template.project.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]
    sources = tuple("edit:" if is_edit(each) else each for each in template.sources)
    return replace(template, project=project, sources=sources, seed=_unnamed(template.seed))


def _unnamed(value: Any) -> Any:
    if isinstance(value, Source):
        return edited_by("") if is_edit(value) else value
    if isinstance(value, tuple):
        parts = [_unnamed(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if hasattr(value, "__dataclass_fields__"):
        return replace(value, **{name: _unnamed(getattr(value, name)) for name in value.__dataclass_fields__})
    return value


# -- in


def read_file(path: Path) -> WarmTemplate:
    """The template in a file, quarantined. Raises `InvalidTemplate` with a line for each thing that is wrong."""
    value = plain_json.read(path)
    name = _name(path)
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise InvalidTemplate(f"{name!r} is no template; give a file that `templates export` wrote")
    if value.get("format_version") != FORMAT_VERSION or isinstance(value["format_version"], bool):
        raise InvalidTemplate(
            f"{name!r} has the format version {str(value.get('format_version'))[:20]!r}, and this Warmstart reads "
            f"{FORMAT_VERSION}; install a newer one, or export it again"
        )
    problems: list[str] = []
    file = shaped(_File, value, "", problems)
    if problems:
        many = "a problem" if len(problems) == 1 else f"{len(problems):,} problems"
        lines = tuple(line.removeprefix(": ") for line in problems[:_MOST_LINES])
        more = (f"and {len(problems) - _MOST_LINES:,} more",) if len(problems) > _MOST_LINES else ()
        raise InvalidTemplate(f"the file {name!r} has {many}", lines + more)
    template = _template(file, name)
    check(template)
    if content_hash(template) != file.content_hash:
        raise InvalidTemplate(
            f"{name!r} was changed after it was exported; get it from its author again, or let them export it anew"
        )
    return template


def import_file(store: SQLTemplateStore, path: Path) -> WarmTemplate:
    """Keep the template in a file, quarantined; what is there already with the same content is given back as it is."""
    template = read_file(path)
    return same(store, template) or store.add(template, author="import", reason=template.origin)


def same(store: SQLTemplateStore, template: WarmTemplate) -> WarmTemplate | None:
    """The template of the store that says what this one says, if there is one."""
    digest = _shared_hash(template)
    return next((known for known in store.list() if _shared_hash(known) == digest), None)


def _shared_hash(template: WarmTemplate) -> str:
    """The hash that a template has in a file, under the name that the store would give it."""
    return content_hash(_impersonal(replace(showable(template), name=" ".join(template.name.split()))))


def _template(file: _File, name: str) -> WarmTemplate:
    content = {field: getattr(file.template, field) for field in _Content.__slots__}
    origin = f"{_IMPORTED}{name}"
    if file.provenance.id:
        origin += f", where it was {file.provenance.id}"
    return WarmTemplate(
        **content,
        id=file.provenance.id,
        version=file.provenance.version,
        created_at=file.provenance.created_at,
        updated_at=file.provenance.updated_at,
        state="quarantined",
        origin=origin,
    )


def _name(path: Path) -> str:
    """The name of a file as it can be told: without what nobody sees."""
    hidden = {*find_invisible(path.name), *find_controls(path.name), "\n", "\r", "\t", "[", "]", "<", ">"}
    return "".join("?" if sign in hidden else sign for sign in path.name)[:_LONGEST_NAME]
