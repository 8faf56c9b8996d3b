"""The templates of a store, as a program uses them: create, list, choose, start from and delete them.

Each part is loaded on first use, because an agent's hook starts a process on every turn.
"""

from __future__ import annotations

import builtins
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

from warmstart.errors import NothingToCarry, TemplateNotFound
from warmstart.sessions.projects import resolve_project
from warmstart.sessions.values import steps
from warmstart.templates.item import MAX_EXAMPLES

if TYPE_CHECKING:
    from warmstart.config import Settings
    from warmstart.profile.values import TaskType
    from warmstart.recall.recall import Recall
    from warmstart.redact.redactor import Redactor
    from warmstart.sessions.sql_store import SQLSessionStore
    from warmstart.templates.brief import Brief
    from warmstart.templates.make import Explained
    from warmstart.templates.selection import Selector
    from warmstart.templates.start import Started
    from warmstart.templates.template import WarmTemplate


class App(Protocol):
    """What templates need of an open store; `Warmstart` has it."""

    settings: Settings
    store: SQLSessionStore

    @property
    def redactor(self) -> Redactor: ...
    @property
    def searcher(self) -> Recall: ...
    def brief(self, *, project: str = ".", task: str = "") -> Brief: ...


class SessionTemplates:
    """Templates: what worked in past sessions, for new ones to start from."""

    def __init__(self, app: App) -> None:
        from warmstart.templates.store import SQLTemplateStore

        self._app = app
        self.store = SQLTemplateStore(app.store, redactor=app.redactor)

    # -- create and delete

    def extract(self, *sessions: str, name: str = "", author: str = "", **options: Any) -> WarmTemplate:
        """Create a template from sessions: extract, redact, check and save it. There is no other way to create one.

        Without a name it gets one from its type, the first session and the time. `options` are those of
        `warmstart.templates.make.make`, such as `description` and `tags`. Raises `NothingToCarry` or `InvalidTemplate`.
        """
        from warmstart.templates.make import create

        options = {"redactor": self._app.redactor, "kinds": self._app.settings.profile_tools, **options}
        return create(self.store, sessions, name=name, author=author, **options)

    def explain_examples(self, *sessions: str, max_examples: int = MAX_EXAMPLES) -> builtins.list[Explained]:
        """The successful calls of sessions: those that a template carries as examples, and why not the others."""
        from warmstart.templates.make import explain_examples

        options: dict[str, Any] = {"redactor": self._app.redactor, "kinds": self._app.settings.profile_tools}
        return explain_examples(self._app.store, sessions, max_examples=max_examples, **options)

    def create_template(
        self,
        session_id: str,
        name: str | None = None,
        task_type: TaskType | None = None,
        max_examples: int = MAX_EXAMPLES,
        description: str = "",
        tags: Sequence[str] | None = None,
    ) -> WarmTemplate | None:
        """A new template from one session; `None` if the session has no successful call that may be carried."""
        messages = self._app.store.messages(self._app.store.get(session_id).id)
        if not any(step.outcome == "ok" for step in steps(messages)):
            return None
        options: dict[str, Any] = {"task_type": task_type, "max_examples": max_examples, "description": description}
        try:
            return self.extract(session_id, name=name or "", tags=tags or (), **options)
        except NothingToCarry:
            return None

    def delete_template(self, name: str) -> bool:
        """Delete a template by its name or id, with all its versions. Returns whether it existed."""
        try:
            self.store.delete(name)
        except TemplateNotFound:
            return False
        return True

    # -- list

    def get(self, id: str, *, version: int | None = None) -> WarmTemplate:
        """A template by its id, a prefix of it, or its name. Raises `TemplateNotFound`."""
        return self.store.get(id, version=version)

    def list(self, *, project: str | None = ".") -> builtins.list[WarmTemplate]:
        """Templates of a project and those without one, newest first. `project=None` lists all projects."""
        from warmstart.templates.selection import is_project

        wanted = "" if project is None else resolve_project(project)
        every = self.store.list()
        return [each for each in every if not (wanted and each.project) or is_project(each.project, wanted)]

    def list_templates(
        self, task_type: TaskType | None = None, tags: Collection[str] | None = None, *, project: str | None = None
    ) -> builtins.list[WarmTemplate]:
        """The templates of a type with any of the tags, newest first; of all projects unless one is named."""
        wanted = {tag.casefold() for tag in tags or ()}
        return [
            template
            for template in self.list(project=project)
            if task_type in (None, template.task_type)
            and (not wanted or wanted.intersection(tag.casefold() for tag in template.tags))
        ]

    def get_template_stats(self) -> dict[str, Any]:
        """How many templates there are, by type, with how many examples, and how many sessions started from them."""
        templates = self.store.list()
        return {
            "total": len(templates),
            "by_type": dict(Counter(template.task_type for template in templates)),
            "total_examples": sum(len(template.seed.of("example")) for template in templates),
            "total_usage": sum(template.used for template in templates),
        }

    # -- choose and start

    def get_template(
        self, task_type: TaskType, tags: Collection[str] | None = None, *, project: str | None = None
    ) -> WarmTemplate | None:
        """The least used active template of a type with any of the tags; `None` if there is none.

        `start` chooses by the task itself, which fits better.
        """
        templates = self.list_templates(task_type, tags, project=project)
        active = [template for template in templates if template.state == "active"]
        return min(active, key=lambda template: template.used, default=None)

    def inject_into_messages(
        self, template: WarmTemplate, messages: Sequence[Mapping[str, Any]], *, session_id: str = ""
    ) -> builtins.list[Any]:
        """A new list: the messages with this template after the leading system messages. It counts as a use.

        With the agent's own id of the session, the use gets an outcome too. Raises `InvalidTemplate` for a template
        that no session may start from.
        """
        from warmstart.templates.selection import Named
        from warmstart.templates.start import WarmSessionBootstrapper

        WarmSessionBootstrapper(template)  # checks its state
        selector = Named(template, "the program named it")
        return self.start(session_id or uuid4().hex, messages, brief="", selector=selector).messages

    def selector(self, *, deadline_ms: float) -> Selector:
        """A selector, which suggests templates for a task and chooses one as a session would."""
        from warmstart.templates.selection import Policy, Selector

        settings = self._app.settings
        policy = Policy(holdout=settings.templates_holdout, explore=settings.templates_explore)
        return Selector(self.store, recall=self._app.searcher, policy=policy, deadline_ms=deadline_ms)

    def start(
        self, session_id: str, messages: Sequence[Mapping[str, Any]], *, project: str = ".", **options: Any
    ) -> Started:
        """The messages of a new session with the brief of its project, and a template if one fits its task.

        A tenth of the sessions start without a template, so that the effect of templates can be measured. `options`
        are those of `warmstart.templates.start.start_warm`.
        """
        from warmstart.templates.start import last_request, start_warm

        settings = self._app.settings
        defaults: dict[str, Any] = {
            "task": last_request(messages),
            "budget_tokens": settings.templates_budget_tokens,
            "holdout": settings.templates_holdout,
            "explore": settings.templates_explore,
            "redactor": self._app.redactor,
        }
        options = {**defaults, **options}
        if "brief" not in options:
            options["brief"] = self._app.brief(project=project, task=options["task"] or "")
        if "selector" not in options and options["task"]:  # without a task no template is chosen
            options.setdefault("recall", self._app.searcher)
        return start_warm(self.store, session_id, messages, project=resolve_project(project), **options)
