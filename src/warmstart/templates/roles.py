"""Signs of an instruction that a person may well write and that no tool has to say.

The rules here see the text with its signs, in lower case. Those that nobody may write are in `text/untrusted.toml`.
"""

from __future__ import annotations

from warmstart.text.scanner import Rule


def signs(why: str, anchors: str, *patterns: str) -> Rule:
    """A rule for a text with its signs; among the anchors a bar of the text is written `¦`."""
    return Rule(tuple(each.replace("¦", "|") for each in anchors.split("|")), "|".join(patterns), why)


HINTS = (
    signs(
        "speaks to an agent",
        "agent:|agents:|assistant:|assistants:|llm:|llms:|model:|models:|claude:|copilot:|codex:|ai:|agents,"
        "|assistants,",
        r"(?:^|[\n.!?#*(\-]|<!--)\s{0,4}(?:for|to|tip for|tips for|fyi)\s(?:(?:the|any|all|every|ai|llm|coding"
        r"|future)\s){0,3}"
        r"(?:agents?|assistants?|llms?|models?|chatbots?|claude|copilot|codex|ai)\s?[:,]\s",
    ),
    signs(
        "has a sign of who speaks",
        '<instruction|</instruction|"role|\'role|\\"role|user:|user*|ai:|ai*|# instruction|#instruction|# user'
        "|# response"
        "|```instr|system prompt|system message|system note|system update|system alert|system overr|end of|end system"
        "|begin system|start system|begin instr|begin prompt|begin user|start of",
        r"<\s{0,3}/?\s{0,3}instructions?(?:\s[^>\n]{0,80})?>",
        r"[\"']role\\?[\"']\s{0,3}:\s{0,3}\\?[\"'](?:system|developer|assistant)\\?[\"']",
        r"(?:^|\n)[\s>*_|/\"'`]{0,8}(?:user"
        r"|ai)[*_]{0,3}:[*_]{0,3}[ \t]{1,4}[a-z']{1,20},?[ \t][a-z']{1,20},?[ \t][a-z']"
        r"{1,20}[ \t]",
        r"(?:^|\n)\s{0,3}#{1,6}\s{0,3}(?:instructions?|user|response)\s{0,3}:?\s{0,3}(?:\n|$)|(?:^"
        r"|\n)```\s?instructions?\b",
        r"(?:^|\n)#{1,6}\s{0,3}(?:system|assistant)\s(?:prompt|message)",
        r"\bsystem\s(?:prompt|message|note|notice|override|update|alert)\s?[:>\]]",
        r"[-=#*]{2,}\s{0,3}(?:begin|end|start)\s(?:of\s)?(?:the\s)?(?:system|assistant|user|instructions?|prompt)\b",
        r"\bend of (?:the )?(?:user|tool|untrusted|external|system) (?:input|output|results?|data|content|prompt"
        r"|message)",
    ),
    signs(
        "has a call or a result that was none",
        "tool_use|tool_result|function_call|tool_calls|tool result|tool output|function result|tool response"
        "|tool_output",
        r"[\"']type\\?[\"']\s{0,3}:\s{0,3}\\?[\"'](?:tool_use|tool_result|function_call|function_call_output)\\?[\"']",
        r"[\"'](?:tool_calls|function_call)\\?[\"']\s{0,3}:\s{0,3}[\[{]",
        r"(?:^|\n)\s{0,3}(?:tool|function)[ _](?:result|output|response)\s{0,2}:\s{0,3}\S",
    ),
)

REMEMBERED = signs(
    "wants to be remembered",
    "remember",
    r"(?<![\w.\"'])remember\s{0,2}[:!]\s{0,4}(?!true|false|bool|str|num|int|null|none|func|any|undefined)[a-z`'\"*$<(]",
)
