"""What calls and sessions are for: the tables, shell commands, MCP tools, and the user's own table."""

from __future__ import annotations

import json

import pytest

from warmstart.errors import ConfigError
from warmstart.profile.tools import Tools, agent_tools, task_type
from warmstart.profile.values import Kind
from warmstart.sessions.readers.registry import readers


def kind(agent: str, tool: str, arguments: str = "{}", **extra: str) -> Kind:
    return Tools(extra).kind(agent, tool, arguments)


def shell(command: object, *, agent: str = "claude-code", tool: str = "Bash") -> Kind:
    return kind(agent, tool, json.dumps({"command": command}))


# -- the type of a session


MORE_THAN_SIX_IN_TEN_CALLS_MAKE_THE_TYPE = [
    ({}, "mixed"),
    ({"other": 9}, "mixed"),
    ({"code": 1}, "code"),
    ({"code": 6, "file": 4}, "mixed"),
    ({"code": 7, "file": 4}, "code"),
    ({"file": 61, "code": 39}, "file"),
    ({"file": 60, "code": 40}, "mixed"),
    ({"research": 4, "file": 2}, "research"),
    ({"research": 3, "file": 2}, "mixed"),
    ({"code": 34, "file": 33, "research": 33}, "mixed"),
    ({"code": 2, "other": 98}, "code"),
    ({"code": 3, "file": 2, "other": 50}, "mixed"),
]


def test_more_than_six_in_ten_calls_make_the_type(subtests: pytest.Subtests) -> None:
    for counts, expected in MORE_THAN_SIX_IN_TEN_CALLS_MAKE_THE_TYPE:
        with subtests.test(counts=counts, expected=expected):
            assert task_type([kind for kind, number in counts.items() for _ in range(number)]) == expected


def test_exactly_six_in_ten_is_mixed_however_many_calls() -> None:
    for fifth in range(1, 400):
        calls: list[Kind] = ["code"] * (3 * fifth) + ["file"] * (2 * fifth)
        assert task_type(calls) == "mixed", fifth
        assert task_type([*calls, "code"]) == "code", fifth


# -- the tables


EXPECTED: dict[str, dict[Kind, str]] = {
    "hermes": {
        "code": "execute_code process read_terminal",
        "file": "read_file write_file patch search_files",
        "research": "web_search web_fetch web_extract browser_navigate browser_click browser_snapshot delegate_task",
        "other": "todo memory clarify session_search skills_list image_generate",
    },
    "claude-code": {
        "code": "BashOutput KillShell TaskOutput Monitor LSP",
        "file": "Read Edit MultiEdit Write Grep Glob LS NotebookEdit",
        "research": "WebSearch WebFetch Task Agent ReadMcpResourceTool",
        "other": "TodoWrite TaskCreate TaskUpdate AskUserQuestion ExitPlanMode Skill ToolSearch CronCreate",
    },
    "codex": {
        "code": "write_stdin exec js_repl",
        "file": "apply_patch view_image read_file list_dir grep_files",
        "research": "web_search tool_search spawn_agent read_mcp_resource",
        "other": "update_plan request_user_input wait_agent send_input close_agent",
    },
    "gemini-cli": {
        "code": "read_background_output",
        "file": "read_file read_many_files write_file replace list_directory glob search_file_content grep_search",
        "research": "google_web_search web_fetch codebase_investigator get_internal_docs invoke_agent",
        "other": "save_memory write_todos ask_user update_topic complete_task tracker_create_task",
    },
    "opencode": {
        "code": "lsp",
        "file": "read edit write multiedit patch apply_patch grep glob list",
        "research": "webfetch websearch codesearch task",
        "other": "todoread todowrite question skill plan_exit invalid",
    },
    "copilot-cli": {
        "code": "read_bash write_bash stop_bash lsp",
        "file": "view edit create str_replace_editor apply_patch grep glob rg",
        "research": "web_fetch web_search task",
        "other": "report_intent update_todo ask_user store_memory skill exit_plan_mode read_agent list_agents sql",
    },
}


WHAT_THE_TOOLS_OF_EACH_AGENT_ARE_FOR = [
    (agent, tool, expected)
    for agent, kinds in EXPECTED.items()
    for expected, tools in kinds.items()
    for tool in tools.split()
]


def test_what_the_tools_of_each_agent_are_for(subtests: pytest.Subtests) -> None:
    for agent, tool, expected in WHAT_THE_TOOLS_OF_EACH_AGENT_ARE_FOR:
        with subtests.test(agent=agent, tool=tool, expected=expected):
            assert kind(agent, tool) == expected


THE_COMMAND_DECIDES_IN_THE_SHELL_OF_EACH_AGENT = [
    ("hermes", "terminal"),
    ("claude-code", "Bash"),
    ("claude-code", "PowerShell"),
    ("codex", "shell"),
    ("codex", "shell_command"),
    ("codex", "exec_command"),
    ("codex", "local_shell"),
    ("codex", "container.exec"),
    ("gemini-cli", "run_shell_command"),
    ("opencode", "bash"),
    ("copilot-cli", "bash"),
    ("copilot-cli", "powershell"),
    ("qwen-code", "run_shell_command"),
    ("pi", "bash"),
    ("cline", "run_commands"),
    ("openai", "execute_bash"),
]


def test_the_command_decides_in_the_shell_of_each_agent(subtests: pytest.Subtests) -> None:
    for agent, tool in THE_COMMAND_DECIDES_IN_THE_SHELL_OF_EACH_AGENT:
        with subtests.test(agent=agent, tool=tool):
            assert shell("pytest -q", agent=agent, tool=tool) == "code"
            assert shell("cat a.py", agent=agent, tool=tool) == "file"
            assert shell("curl https://example.org", agent=agent, tool=tool) == "research"


def test_every_agent_that_is_read_has_a_table() -> None:
    assert {name for name in readers() if name not in ("openai", "inspect")} == agent_tools().keys()


def test_the_same_name_may_mean_something_else_to_another_agent() -> None:
    assert kind("opencode", "patch") == kind("hermes", "patch") == "file"
    assert kind("claude-code", "patch") == "other"
    assert kind("nobody", "read_file") == "file"
    assert kind("nobody", "web_search") == "research"
    assert kind("nobody", "book_reservation") == kind("claude-code", "") == "other"


A_TOOL_OF_AN_MCP_SERVER_GOES_BY_ITS_VERB = [
    ("mcp__server__search_issues", "research"),
    ("mcp__linear-server__list_issues", "research"),
    ("mcp__context7__resolve-library-id", "research"),
    ("mcp__ide__getDiagnostics", "research"),
    ("mcp__ide__executeCode", "code"),
    ("mcp__runner__run_tests", "code"),
    ("mcp__files__write_file", "file"),
    ("mcp__files__edit", "file"),
    ("mcp__search__write_note", "file"),
    ("mcp__plugin_search_run__read_page", "file"),
    ("mcp__codex_apps__github__fetch_pr", "research"),
    ("mcp_github_list_issues", "research"),
    ("mcp__server__ponder", "other"),
    ("mcp__server__", "other"),
    ("mcp__", "other"),
    ("mcp_", "other"),
]


def test_a_tool_of_an_mcp_server_goes_by_its_verb(subtests: pytest.Subtests) -> None:
    for tool, expected in A_TOOL_OF_AN_MCP_SERVER_GOES_BY_ITS_VERB:
        with subtests.test(tool=tool, expected=expected):
            assert kind("claude-code", tool) == expected


AGENTS_THAT_DO_NOT_MARK_MCP_TOOLS = [
    ("opencode", "tickets_search_issues", "research"),
    ("opencode", "files_write", "file"),
    ("copilot-cli", "github-mcp-server-get_file_contents", "research"),
    ("copilot-cli", "playwright-browser_navigate", "research"),
    ("codex", "tickets_search_issues", "other"),
]


def test_agents_that_do_not_mark_mcp_tools(subtests: pytest.Subtests) -> None:
    for agent, tool, expected in AGENTS_THAT_DO_NOT_MARK_MCP_TOOLS:
        with subtests.test(agent=agent, tool=tool, expected=expected):
            assert kind(agent, tool) == expected


# -- shell commands


SHELL_COMMANDS_ARE_LOOKED_INTO = [
    ("pytest", "code"),
    ("cat a.py | head", "file"),
    ("curl -s https://example.org/a | jq .", "research"),
    ("cd src && pytest", "code"),
    ("cd src && cat a.py", "file"),
    ("cd /tmp; wget https://example.org/a", "research"),
    ("sudo cat /etc/hosts", "file"),
    ("sudo -u web pytest", "code"),
    ("timeout 60 curl https://example.org", "research"),
    ("timeout 60 cat a", "file"),
    ("timeout 60 pytest -x", "code"),
    ("uv run pytest", "code"),
    ("uv run --with httpx cat a.py", "file"),
    ('bash -lc "cat a.py && ls"', "file"),
    ('bash -lc "cd x && pytest"', "code"),
    ("bash -c 'curl https://example.org'", "research"),
    ("sudo timeout 5 bash -lc 'cd a && rg tide'", "file"),
    (["bash", "-lc", "cat a.py"], "file"),
    (["bash", "-lc", "cd a && pytest"], "code"),
    (["/bin/zsh", "-lc", "ls"], "file"),
    (["rg", "-n", "tide; pytest", "src"], "file"),
    (["cat", "a.py"], "file"),
    (["python", "-c", "cat"], "code"),
    (["curl", "https://example.org"], "research"),
    ("cat a.py && pytest", "code"),
    ("cat a.py && curl https://example.org", "research"),
]


def test_shell_commands_are_looked_into(subtests: pytest.Subtests) -> None:
    for command, expected in SHELL_COMMANDS_ARE_LOOKED_INTO:
        with subtests.test(command=command, expected=expected):
            assert shell(command) == expected


A_SHELL_WITHOUT_A_READABLE_COMMAND_IS_NO_CRASH = [
    "",
    "{",
    "[]",
    "null",
    '{"command": 3}',
    '{"command": [1]}',
    '{"cmd": []}',
    "\ud800",
]


def test_a_shell_without_a_readable_command_is_no_crash(subtests: pytest.Subtests) -> None:
    for arguments in A_SHELL_WITHOUT_A_READABLE_COMMAND_IS_NO_CRASH:
        with subtests.test(arguments=arguments):
            assert kind("codex", "shell", arguments) in ("code", "file", "other")


def test_a_command_may_be_all_there_is() -> None:
    assert kind("codex", "shell", "cat a.py") == "file"
    assert kind("codex", "exec_command", '{"cmd": "go test ./..."}') == "code"


# -- the user's own table


def test_the_users_own_table_goes_first() -> None:
    own = {"Read": "research", "Bash": "other", "mcp__tickets__*": "file", "deploy": "code"}
    tools = Tools(own)
    assert tools.kind("claude-code", "Read", "{}") == "research"
    assert tools.kind("claude-code", "Bash", '{"command": "pytest"}') == "other"
    assert tools.kind("claude-code", "mcp__tickets__search", "{}") == "file"
    assert tools.kind("codex", "deploy", "{}") == "code"
    assert tools.kind("codex", "Deploy", "{}") == "other"
    assert tools.kind("claude-code", "Edit", "{}") == "file"


def test_a_name_goes_before_a_pattern_and_the_first_pattern_before_the_next() -> None:
    tools = Tools({"mcp__*": "research", "mcp__tickets__*": "file", "mcp__tickets__close": "code"})
    assert tools.kind("codex", "mcp__tickets__close", "{}") == "code"
    assert tools.kind("codex", "mcp__tickets__open", "{}") == "research"
    assert Tools({"*": "code"}).kind("codex", "anything", "{}") == "code"
    assert Tools({"a[b]": "code"}).kind("codex", "a[b]", "{}") == "code"


def test_an_unknown_kind_is_refused(subtests: pytest.Subtests) -> None:
    for wrong in ["coding", "", "Code", "mixed"]:
        with subtests.test(wrong=wrong), pytest.raises(ConfigError, match=r"'deploy'.*code, file, research, other"):
            Tools({"deploy": wrong})
