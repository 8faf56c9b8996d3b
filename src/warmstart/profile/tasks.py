"""What kind of work a call is, and with that a session: code, file, research or mixed.

A table of tool names per agent decides, a shell command is looked into, and a tool of an MCP server is judged by its
verb. Tools that only plan or ask are `other` and do not count. A user's own table goes before all of it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Literal, get_args

from warmstart.errors import ConfigError
from warmstart.profile import shell
from warmstart.profile.arguments import command_in
from warmstart.profile.values import Kind, TaskType

SHARE = 0.6  # a session is of a kind when more than this share of its calls is
_KINDS: dict[str, Kind] = {kind: kind for kind in get_args(Kind)}


def _table(**names: str) -> dict[str, Kind]:
    return {name: _KINDS[kind] for kind, some in names.items() for name in some.split()}


# By agent. A shell is not in a table: its command decides.
TOOLS: dict[str, dict[str, Kind]] = {
    "claude-code": _table(
        code="BashOutput KillShell KillBash TaskOutput TaskStop Monitor LSP REPL",
        file="Read Edit MultiEdit Write NotebookRead NotebookEdit Grep Glob LS",
        research="WebSearch WebFetch Task Agent ListMcpResourcesTool ReadMcpResourceTool",
        other="TodoRead TodoWrite TaskCreate TaskUpdate TaskList TaskGet AskUserQuestion EnterPlanMode ExitPlanMode "
        "Skill SlashCommand ToolSearch SendMessage CronCreate CronList CronDelete EnterWorktree ExitWorktree",
    ),
    "codex": _table(
        code="write_stdin exec js_repl",
        file="apply_patch read_file list_dir grep_files view_image",
        research="web_search tool_search spawn_agent list_mcp_resources list_mcp_resource_templates read_mcp_resource",
        other="update_plan request_user_input request_permissions send_input send_message followup_task wait "
        "wait_agent close_agent resume_agent list_agents",
    ),
    "gemini-cli": _table(
        code="list_background_processes read_background_output",
        file="read_file read_many_files write_file replace list_directory glob search_file_content grep_search edit "
        "ReadFile WriteFile Edit ReadFolder FindFiles SearchText",
        research="google_web_search web_fetch codebase_investigator GoogleSearch WebFetch get_internal_docs "
        "invoke_agent list_mcp_resources read_mcp_resource",
        other="save_memory write_todos ask_user activate_skill enter_plan_mode exit_plan_mode update_topic "
        "complete_task",
    ),
    "opencode": _table(
        code="lsp",
        file="read edit write multiedit patch apply_patch grep glob list",
        research="webfetch websearch codesearch task",
        other="todoread todowrite question skill batch plan_enter plan_exit",
    ),
    "copilot-cli": _table(
        code="read_bash write_bash stop_bash list_bash read_powershell write_powershell stop_powershell "
        "list_powershell lsp",
        file="view edit create str_replace_editor apply_patch grep glob rg show_file",
        research="web_fetch web_search fetch_copilot_cli_documentation task",
        other="report_intent update_todo ask_user report_progress store_memory skill sql session_store_sql "
        "exit_plan_mode read_agent write_agent list_agents task_complete",
    ),
    "hermes": _table(
        code="execute_code process code_execution read_terminal close_terminal",
        file="read_file write_file patch search_files",
        research="web_search web_fetch web_extract web_crawl x_search vision_analyze video_analyze delegate_task",
        other="todo memory clarify session_search skills_list skill_view skill_manage cronjob send_message",
    ),
}
# What tools of any agent are usually called.
_COMMON = _table(
    code="python execute_python run_python code_interpreter run_code execute_code run_tests",
    file="read_file write_file edit_file create_file delete_file list_files list_directory search_files apply_patch "
    "str_replace_editor str_replace_based_edit_tool text_editor file_read file_write",
    research="web_search web_fetch search_web fetch_url open_url browse tavily_search duckduckgo_search",
)
SHELLS = frozenset(
    (
        *("Bash", "PowerShell", "bash", "powershell", "bash_tool", "execute_bash"),
        *("shell", "shell_command", "local_shell", "exec_command", "container.exec"),
        *("run_shell_command", "ShellTool", "terminal"),
        *("run_command", "execute_command", "run_terminal_cmd"),
    )
)
# Agents that call a tool of an MCP server `server_tool` or `server-tool`, without a word to tell it by.
_UNMARKED = frozenset(("opencode", "copilot-cli"))
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_VERBS = _table(
    code="run execute exec eval evaluate build test compile deploy install start stop debug lint format",
    file="read write edit create update delete remove move copy rename save patch insert add",
    research="search fetch get list find query ask browse navigate resolve lookup crawl scrape extract click "
    "screenshot snapshot open view show describe retrieve",
)


class Tools:
    """Knows what each tool is for. `extra` maps names, which may hold `*`, to a kind and goes before the tables.

    A whole name goes before a pattern, and of patterns the first that fits.
    """

    def __init__(self, extra: Mapping[str, str] | None = None) -> None:
        self.extra: dict[str, Kind] = {}
        for name, kind in (extra or {}).items():
            if kind not in _KINDS:
                raise ConfigError(f"the tool {name!r} in `profile.tools` is {kind!r}; write one of {', '.join(_KINDS)}")
            self.extra[name] = _KINDS[kind]

    def kind(self, agent: str, tool: str, arguments: str) -> Kind:
        """What a call is for."""
        if tool in self.extra:
            return self.extra[tool]
        for name, kind in self.extra.items():
            if "*" in name and fnmatchcase(tool, name):
                return kind
        if tool in SHELLS:
            return shell.kind_of(command_in(arguments))
        known = TOOLS.get(agent, {}).get(tool) or _COMMON.get(tool)
        if known:
            return known
        if tool.startswith(("browser_", "browser.")):
            return "research"
        unmarked = agent in _UNMARKED and ("_" in tool or "-" in tool)
        return _by_verb(tool) if unmarked or tool.startswith("mcp_") else "other"


def _by_verb(tool: str) -> Kind:
    """The kind of an MCP tool by the first verb in its own name, which follows the server's."""
    own = tool.rsplit("__", 1)[-1] if "__" in tool else tool.removeprefix("mcp_")
    for word in _WORD.findall(own):
        if kind := _VERBS.get(word.lower()):
            return kind
    return "other"


def task_type(kinds: Iterable[Kind]) -> TaskType:
    """The kind that more than 60 % of the calls have, of those that have one; otherwise `mixed`."""
    counts = Counter(kinds)
    counted: tuple[Literal["code", "file", "research"], ...] = ("code", "file", "research")
    total = sum(counts[kind] for kind in counted)
    for kind in counted:
        if counts[kind] > SHARE * total:
            return kind
    return "mixed"
