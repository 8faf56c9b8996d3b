"""A small office as an environment: files, documents, orders and a ledger behind tools with strict conventions.

The conventions are like those of real tools: dates in ISO format, amounts in cents, ids with leading zeros, scoped
searches, read before edit, a strict check at the end. Schemas are clean but terse; errors say what is wrong with a
call. So an agent can succeed cold if it learns from errors before it runs out of turns.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

DOCUMENTS = {
    "DOC-011": ("policies", "Returns", "Goods can be returned within 30 days. Opened software cannot be returned."),
    "DOC-012": ("policies", "Warranty", "Tools have a warranty of 24 months, batteries of 6 months."),
    "DOC-013": ("policies", "Complaints", "A complaint is answered within 5 working days by the branch in Leeds."),
    "DOC-021": ("rates", "Shipping", "A parcel costs 490 cents, a pallet 5900 cents, express is 1250 cents extra."),
    "DOC-022": ("rates", "Storage", "A shelf costs 300 cents a week, a cold cell 1100 cents a week."),
    "DOC-023": ("rates", "Repairs", "Inspection is 2500 cents. An hour of work is 6400 cents."),
    "DOC-024": ("rates", "Rental", "A van is rented at 7800 cents a day, a trailer at 2100 cents a day."),
    "DOC-031": ("contacts", "Depot north", "The depot north is run by Ines Albrecht, extension 214."),
    "DOC-032": ("contacts", "Depot south", "The depot south is run by Omar Haddad, extension 377."),
    "DOC-033": (
        "contacts",
        "Billing",
        "Billing is Petra Lindqvist, extension 120. Refunds go to Jun Watanabe, extension 125.",
    ),
    "DOC-034": ("contacts", "Security", "Security is on extension 999; lost keys are reported to Ama Boateng."),
}
STATUSES = ("open", "packed", "shipped", "closed", "on_hold")
KINDS = ("invoice", "refund", "fee")
_DATE = re.compile(r"20\d\d-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])")


class ToolFailure(Exception):
    """A call that is refused; the message says why."""


class Tool(NamedTuple):
    """A tool: its description, and its parameters with type and description."""

    description: str
    parameters: dict[str, tuple[str, str]]


TOOLS = {
    "search_docs": Tool(
        "Search the handbook.", {"scope": ("string", "Part of the handbook."), "query": ("string", "A word.")}
    ),
    "get_document": Tool("Show a document.", {"id": ("string", "Document id.")}),
    "get_order": Tool("Show an order.", {"id": ("string", "Order id.")}),
    "update_order": Tool(
        "Change the status of an order.", {"id": ("string", "Order id."), "status": ("string", "New status.")}
    ),
    "add_entry": Tool(
        "Add an entry to the ledger.",
        {
            "kind": ("string", "Kind of entry."),
            "order": ("string", "Order id."),
            "date": ("string", "Date."),
            "amount": ("integer", "Amount."),
        },
    ),
    "read_file": Tool("Read a file.", {"path": ("string", "Path.")}),
    "edit_file": Tool(
        "Replace a text in a file.",
        {"path": ("string", "Path."), "old": ("string", "Text to replace."), "new": ("string", "Replacement.")},
    ),
    "check_file": Tool("Check a file.", {"path": ("string", "Path."), "level": ("string", "Level.")}),
    "return_answer": Tool("Finish, with the answer or a short report.", {"answer": ("string", "Answer.")}),
}


class World:
    """The state that tools read and change."""

    def __init__(self, files: dict[str, str] | None = None, orders: dict[str, str] | None = None) -> None:
        self.files = dict(files or {})
        self._original = dict(self.files)
        self.orders = dict(orders or {})
        self.entries: list[tuple[str, str, str, int]] = []
        self.checked: set[str] = set()
        self.answer: str | None = None
        self._read: set[str] = set()

    def call(self, name: str, arguments: dict[str, Any]) -> str:
        """The result of a call. Raises `ToolFailure`."""
        tool = TOOLS.get(name)
        if tool is None:
            raise ToolFailure(f"there is no tool {name!r}; the tools are {', '.join(TOOLS)}")
        for extra in arguments.keys() - tool.parameters.keys():
            raise ToolFailure(f"unknown parameter {extra!r}; use {', '.join(tool.parameters)}")
        for missing in tool.parameters.keys() - arguments.keys():
            raise ToolFailure(f"parameter {missing!r} is required")
        handler: Callable[..., str] = getattr(self, f"_{name}")
        return handler(**arguments)

    # -- the handbook

    def _search_docs(self, scope: Any, query: Any) -> str:
        scopes = sorted({each for each, _, _ in DOCUMENTS.values()})
        if scope not in scopes:
            raise ToolFailure(f"scope must be one of {', '.join(scopes)}")
        if " " in str(query).strip():
            raise ToolFailure("query must be a single word")
        word = str(query).strip().lower().rstrip("s")
        found = [
            f"{id_} {title}"
            for id_, (each, title, text) in DOCUMENTS.items()
            if each == scope and word and word in f"{title} {text}".lower()
        ]
        return "\n".join(found) or "no documents"

    def _get_document(self, id: Any) -> str:
        if not re.fullmatch(r"DOC-\d{3}", str(id)):
            raise ToolFailure("id must look like DOC-012")
        if id not in DOCUMENTS:
            raise ToolFailure(f"no document {id}; use search_docs")
        return DOCUMENTS[id][2]

    # -- orders and the ledger

    def _order(self, id: Any) -> str:
        if not re.fullmatch(r"ORD-\d{5}", str(id)):
            raise ToolFailure("order id must be ORD- and five digits, padded with zeros")
        if id not in self.orders:
            raise ToolFailure(f"no order {id}")
        return str(id)

    def _get_order(self, id: Any) -> str:
        return f"{self._order(id)}: {self.orders[id]}"

    def _update_order(self, id: Any, status: Any) -> str:
        key = self._order(id)
        if status not in STATUSES:
            raise ToolFailure(f"status must be one of {', '.join(STATUSES)}")
        self.orders[key] = status
        return "ok"

    def _add_entry(self, kind: Any, order: Any, date: Any, amount: Any) -> str:
        key = self._order(order)
        if kind not in KINDS:
            raise ToolFailure(f"kind must be one of {', '.join(KINDS)}")
        if not _DATE.fullmatch(str(date)):
            raise ToolFailure("date must be YYYY-MM-DD")
        if isinstance(amount, bool) or not isinstance(amount, int):
            raise ToolFailure("amount must be a whole number of cents")
        self.entries.append((kind, key, str(date), amount))
        return "ok"

    # -- files

    def _path(self, path: Any) -> str:
        if not str(path).startswith("/"):
            raise ToolFailure(f"path must be absolute, as /{path}")
        if path not in self.files:
            raise ToolFailure(f"no file {path}; there are {', '.join(self.files) or 'none'}")
        return str(path)

    def _read_file(self, path: Any) -> str:
        key = self._path(path)
        self._read.add(key)
        return self.files[key]

    def _edit_file(self, path: Any, old: Any, new: Any) -> str:
        key = self._path(path)
        if key not in self._read:
            raise ToolFailure("read the file before you edit it")
        if self.files[key].count(str(old)) != 1:
            raise ToolFailure("old must occur exactly once in the file")
        self.files[key] = self.files[key].replace(str(old), str(new))
        self.checked.discard(key)
        return "ok"

    def _check_file(self, path: Any, level: Any) -> str:
        key = self._path(path)
        if level not in ("basic", "strict"):
            raise ToolFailure("level must be basic or strict")
        if key.endswith(".py"):
            try:
                compile(self.files[key], key, "exec")
            except SyntaxError as error:
                raise ToolFailure(f"line {error.lineno}: {error.msg}") from error
        if level == "strict":
            self.checked.add(key)
        return f"{level}: ok"

    def _return_answer(self, answer: Any) -> str:
        edited = {path for path, text in self.files.items() if text != self._original[path]}
        unchecked = edited - self.checked
        if unchecked:
            raise ToolFailure(f"run check_file with level strict on {min(unchecked)} first")
        self.answer = str(answer)
        return "done"
