"""Every error that Warmstart raises on purpose.

WarmstartError
├── ConfigError            a setting, environment variable or config file is wrong
├── StoreError             the store cannot do what was asked
│   ├── StoreBusy          another process holds the lock for too long
│   ├── StoreCorrupt       the file is damaged or is not a store
│   ├── StoreFull          no space is left on the disk
│   ├── StoreReadOnly      the store or its folder cannot be written
│   ├── StoreTooNew        a newer Warmstart made this store
│   └── StoreUnreachable   the store's server does not answer
├── SessionNotFound        no session has that id
├── AmbiguousId            a short id matches several sessions
├── LogError               an agent's log cannot be read at all
├── EntryNotFound          no memory has that key
├── InvalidEntry           a memory is invalid and cannot be stored
├── TemplateNotFound       no template has that id or name, or no such version
├── InvalidTemplate        a template is invalid; one line per problem
├── NothingToCarry         the sessions have nothing worth carrying
├── TemplateChanged        someone else changed the template
├── HandoffRefused         a session cannot be handed over
├── DatasetError           a dataset cannot be written there
├── ExperimentError        an experiment cannot be run, or its data cannot be analysed
├── EmbedderError          an embedding service does not answer
└── MemoryBackendError     a memory backend cannot do what was asked

Messages are one line, quote the offending value and say what to do next.
"""


class WarmstartError(Exception):
    """Root of all errors raised on purpose."""


class ConfigError(WarmstartError):
    """A setting, environment variable or config file is wrong."""


class StoreError(WarmstartError):
    """The store cannot do what was asked."""


class StoreBusy(StoreError):
    """Another process held the lock for longer than the timeout."""


class StoreCorrupt(StoreError):
    """The file is damaged or is not a Warmstart store."""


class StoreFull(StoreError):
    """No space is left for the write, which was rolled back."""


class StoreReadOnly(StoreError):
    """The store or its folder cannot be written."""


class StoreTooNew(StoreError):
    """A newer version of Warmstart made this store."""


class StoreUnreachable(StoreError):
    """The store's server cannot be reached, or the connection to it was lost."""


class SessionNotFound(WarmstartError):
    """No session has that id."""


class AmbiguousId(WarmstartError):
    """A short id matches several sessions."""


class LogError(WarmstartError):
    """An agent's log cannot be read at all."""


class EntryNotFound(WarmstartError):
    """No memory has that key in this scope."""


class InvalidEntry(WarmstartError):
    """A memory cannot be stored: its key, scope or metadata is invalid."""


class TemplateNotFound(WarmstartError):
    """No template has that id or name, or the template has no such version."""


class InvalidTemplate(WarmstartError):
    """A template is invalid. `problems` has one line each; the message contains them all."""

    def __init__(self, message: str, problems: tuple[str, ...] = ()) -> None:
        super().__init__("\n".join((message, *problems)))
        self.problems = problems


class NothingToCarry(WarmstartError):
    """The sessions have nothing worth carrying, or nothing that is allowed to be carried."""


class TemplateChanged(WarmstartError):
    """Someone else changed the template."""


class HandoffRefused(WarmstartError):
    """A session cannot be handed over; nothing was written."""


class DatasetError(WarmstartError):
    """A dataset cannot be written there."""


class ExperimentError(WarmstartError):
    """An experiment cannot be run, or its data cannot be analysed."""


class EmbedderError(WarmstartError):
    """An embedding service does not answer, or its answer has no vectors."""


class MemoryBackendError(WarmstartError):
    """A memory backend is not configured, is closed, or cannot do what was asked."""
