"""Share a template as a file that another person can read, check and import: JSON, redacted, with a hash.

The file holds everything a rendering depends on and the ids of the source sessions, but no local paths and no names of
editors. An import is checked, keeps its origin, and is quarantined until somebody promotes it. We never use anything in
a file as a path, a command or a query.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from warmstart.errors import InvalidTemplate, WarmstartError
from warmstart.redact.redactor import Redactor
from warmstart.storage.files import write_private
from warmstart.templates.item import EDIT, Item, Source, ToolCallExample
from warmstart.templates.rendering import call_fields
from warmstart.templates.safety import is_safe_example
from warmstart.templates.store import Body, SQLTemplateStore, content_hash, map_texts
from warmstart.templates.template import SessionSeed, WarmTemplate
from warmstart.templates.validation import IMPORTED, check, without_problems

FORMAT = "warmstart-template"
FORMAT_VERSION = 3
MAX_BYTES = 1_000_000


class _File(msgspec.Struct, forbid_unknown_fields=True):
    """The file format; `exported` is the id and version of the exported template."""

    format: str
    format_version: int
    content_hash: str
    exported: tuple[str, int]
    template: Body


def export_text(template: WarmTemplate) -> str:
    """The content of an export file."""
    shared = map_texts(_shareable(template), Redactor().clean)
    exported = (shared.id, shared.version)
    file = _File(FORMAT, FORMAT_VERSION, content_hash(shared), exported, Body.of(shared))
    return json.dumps(json.loads(msgspec.json.encode(file)), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def export(template: WarmTemplate, path: Path, *, overwrite: bool = False) -> None:
    """Export a template to a file, atomically. Raises `WarmstartError` if the file already exists."""
    try:
        write_private(path, [export_text(template)], overwrite=overwrite)
    except FileExistsError as error:
        raise WarmstartError(f"{str(path)!r} already exists; choose another name or use --overwrite") from error
    except (OSError, ValueError) as error:
        raise WarmstartError(f"{str(path)!r} cannot be written ({_reason(error)}); choose another path") from error


def _shareable(template: WarmTemplate) -> WarmTemplate:
    """The template without details of this machine and its users, and without items that an import would reject.

    A command that is carried only because our own user typed it is such an item.
    """
    shared = tuple(map(_without_private_values, template.seed.items))
    imported = replace(template, origin=IMPORTED, seed=SessionSeed(items=shared))
    items = tuple(
        replace(item, sources=tuple(Source(EDIT) if source.is_edit else source for source in item.sources))
        for item in without_problems(imported)
    )
    return replace(
        template,
        origin="user",
        project=template.project.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1],
        sources=tuple(EDIT if each.startswith(EDIT) else each for each in template.sources),
        seed=SessionSeed(items=items),
    )


def _without_private_values(item: Item) -> Item:
    """An example that may be shown to somebody else: of a call that is not known to be safe only the form is left."""
    if item.kind != "example":
        return item
    calls = tuple(call if is_safe_example(call) else _form_of(call) for call in item.calls)
    return replace(item, calls=calls)


def _form_of(call: ToolCallExample) -> ToolCallExample:
    form = {name: f"{{{{{re.sub(r'[^0-9A-Za-z_]', '_', name)}}}}}" for name in call_fields(call)}
    return call._replace(arguments=json.dumps(form))


def import_file(store: SQLTemplateStore, path: Path) -> WarmTemplate:
    """Import a template, quarantined. If one with the same name and content exists, it is returned instead."""
    template = read_file(path)
    template = replace(template, name=" ".join(template.name.split()))
    digest = content_hash(_shareable(template))
    for known in store.summaries():
        if known.name == template.name and content_hash(_shareable(saved := store.get(known.id))) == digest:
            return saved
    return store.add(template, author="import", reason=template.origin)


def read_file(path: Path) -> WarmTemplate:
    """The template in a file, quarantined. Raises `InvalidTemplate` with all problems."""
    file = _decode(path, _read(path))
    name, version = file.exported
    origin = f"{IMPORTED}{_shown_name(path)}" + (f", where it was {name}" if name else "")
    fields = {**file.template.fields(), "origin": origin}
    template = WarmTemplate(**fields, id=name, version=version, state="quarantined")
    check(template)
    if content_hash(template) != file.content_hash:
        raise _refuse(path, "was changed after it was exported; get a new copy from its author")
    return template


def _decode(path: Path, data: bytes) -> _File:
    """Decode a file strictly: no duplicate keys, nothing unknown, nothing missing."""
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=_unique)
        if not isinstance(value, dict) or value.get("format") != FORMAT:
            raise _refuse(path, "is not a template; use a file written by `templates export`")
        version = value.get("format_version")
        if version != FORMAT_VERSION or isinstance(version, bool):
            raise _refuse(path, f"has format version {version!r}, not {FORMAT_VERSION}; export the template again")
        file = msgspec.json.decode(data, type=_File)
    except (ValueError, RecursionError) as error:  # from `json` and msgspec
        raise _refuse(path, f"is not valid ({str(error)[:200]}); export the template again") from error
    if json.loads(msgspec.json.encode(file)) != value:
        raise _refuse(path, "has a field that is unknown, missing or written differently; export it again")
    return file


def _read(path: Path) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise _refuse(path, "is not a regular file; use a file written by `templates export`")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise _refuse(path, f"cannot be opened ({_reason(error)}); check the path and its permissions") from error
    if len(data) > MAX_BYTES:
        raise _refuse(path, f"is larger than {MAX_BYTES:,} bytes, the limit for a template")
    return data


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("duplicate key in an object")
    return value


def _refuse(path: Path, what: str) -> InvalidTemplate:
    return InvalidTemplate(f"{_shown_name(path)!r} {what}")


def _shown_name(path: Path) -> str:
    """The name of a file without invisible characters or ones that could form a tag."""
    return re.sub(r"[^\w. ()+-]", "?", path.name)[:120]
