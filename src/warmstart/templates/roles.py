"""The signs by which a conversation is cut into parts, and those of a shell that runs what it fetches.

A text with such a sign in it could be taken for a part of its own: somebody else's words, a call, a result, ours. The
rules here see the text with its signs, in small letters.
"""

from __future__ import annotations

from warmstart.templates.wording import Rule

_SHELL = r"(?:sudo\s{1,4}(?:-\w{1,4}\s{1,4}){0,2})?(?:/(?:usr/)?bin/)?(?:env\s{1,4})?(?:ba|z|da|k|c|fi|a|pw)?sh"
_RUNNER = rf"(?:{_SHELL}|sudo|python[\d.]{{0,4}}|perl|ruby|node|php|deno|bun|iex|invoke-expression|source)(?![\w-])"
_FETCHER = r"(?:curl|wget|aria2c|iwr|irm|invoke-webrequest|invoke-restmethod|lwp-download|certutil|xh|httpie)(?![\w-])"


def signs(why: str, anchors: str, *patterns: str) -> Rule:
    """A rule for a text with its signs; among the anchors a bar of the text is written `¦`."""
    return Rule(why, tuple(each.replace("¦", "|") for each in anchors.split("|")), "|".join(patterns))


MARKS = signs(
    "has a mark of ours",
    "warmstart",
    r"<\s{0,4}/?\s{0,4}warmstart|\[\s{0,4}/?\s{0,4}warmstart\s{0,4}\]|call_warmstart_",
    r"(?:begin|end)\s{1,3}(?:of\s{1,3})?warmstart\b",
)

# What nobody writes who does not mean to cut in: not even a person in a prompt of their own.
PARTS = (
    MARKS,
    signs(
        "has a sign of who speaks",
        "<¦|¦>|[inst|[/inst|[ inst|<<sys>>|<system|</system|< system|<assistant|</assistant|<human|</human|<developer"
        "|</developer|_of_turn|to=func|to=tool|[system|[/system|[assistant|[ system|<untrusted|</untrusted|</user_"
        "|<user_",
        r"<\|\s{0,2}[a-z0-9_/ ]{2,40}\s{0,2}\|>|\[\s?/?\s?inst\s?\]|<</?sys>>|<(?:start|end)_of_turn>"
        r"|\bto=(?:functions|tools?)\.\w",
        r"<\s{0,3}/?\s{0,3}(?:system|assistant|human|developer|untrusted|user_(?:query|message|input|prompt))"
        r"(?:[-_:](?:prompt|message|reminder|note|instructions?|content|data|input|override))?(?:\s[^>\n]{0,80})?>",
        r"(?<![\w\])])\[\s{0,2}/?\s{0,2}(?:system|assistant)(?:[ _:-](?:prompt|message|note|instructions?|override))?"
        r"\s{0,2}\](?!\s{0,3}[,;)\]=.])",
    ),
    signs(
        "has lines as somebody else's",
        "system:|system*|system`|system\"|system'|system_|system :|system prompt:|system message:|system note:"
        "|system overr|system instr|system alert|assistant:|assistant*|assistant_|assistant`|assistant :|human:|human*"
        "|developer:|developer*|# system|#system|# assistant|#assistant|# human|```sys|```assist|```human|```dev"
        "|```tool|\x7e\x7e\x7esys|\x7e\x7e\x7eassist",
        r"(?:^|\n)[\s<>!*_\-|/#\"'`]{0,12}(?:system|assistant|human|developer)(?:\s(?:message|prompt|note|instructions?"
        r"|override|notice|alert))?[\s*_\"'`]{0,3}:[*_]{0,3}[ \t]{1,4}[\"'`]?[a-z][a-z'.,]{0,20}[ \t]{1,4}[a-z`$(\"']",
        r"(?:^|\n)(?:```|\x7e{3})\s{0,2}(?:system|assistant|human|developer|tool_(?:result|call|response))\b",
        r"(?:^|\n)\s{0,3}#{1,6}\s{0,3}(?:system|assistant|human)\s{0,3}:?\s{0,3}(?:\n|$)",
        r"(?:^|\n)(?:human|assistant):(?:\s|$)",
    ),
    signs(
        "has a call or a result that was none",
        "<tool|</tool|<function|</function|<invoke|</invoke|antml|<observation|</observation|[tool_|<parameter"
        "|</parameter",
        r"<\s{0,3}/?\s{0,3}(?:antml:)?(?:tool[_-](?:results?|calls?|use|response|output|code)|function[_-](?:results?"
        r"|calls?|response|output)|invoke|observation|parameter)(?:\s[^>\n]{0,120})?>|</?\s?antml:|<function=",
        r"<function\s+name=|\[tool_(?:calls?|results?)\]",
    ),
)

# What a person may well write, and what no tool has to say.
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

_WHY = "wants something fetched and run"
FETCHED = (
    signs(
        _WHY,
        "curl|wget|iwr |invoke-web|invoke-rest|lwp-download|aria2c|certutil|bitsadmin|mshta|irm h|irm -|irm '"
        '|irm "|xh h|httpie',
        rf"\b{_FETCHER}\s[^|]{{1,200}}\|{{1,2}}&?\s{{0,4}}(?:tee[^|\n]{{0,40}}\|\s{{0,4}})?(?:exec\s+|xargs\s[^"
        rf"|\n]{{0,20}})?"
        rf"{_RUNNER}",
        rf"\b{_FETCHER}[^\n]{{0,200}}(?:&&|;|\n|\band\b)[^\n]{{0,40}}(?:\b(?:{_SHELL}|source|python[\d.]{{0,4}}"
        rf"|perl)\s+[\w./~$-]"
        r"|\bchmod\s+(?:[ugoa]{0,3}\+x|[0-7]{3,4})|\s\./\w)",
        r"(?:\$\(|<\(|&\s?\()\s{0,4}(?:curl|wget|iwr|irm)\s|\b(?:certutil|bitsadmin|mshta)\b[^\n]{0,80}https?:",
    ),
    signs(
        _WHY,
        'eval $|eval "$|eval `|eval(|exec(|iex|invoke-expression|base64 |openssl enc|xxd |rev |¦ sh|¦sh|¦ bash|¦bash'
        "|¦ sudo|/dev/tcp|nc -|ncat -|¦ zsh|¦ /bin",
        r"\beval\W{1,6}\$\(\s{0,3}(?:curl|wget|base64|echo)|/dev/tcp/\S",
        r"\b(?:iex|invoke-expression)\b[^\n]{0,80}(?:download|iwr|irm|http|new-object|webclient|frombase64)",
        rf"\b(?:base64|openssl|xxd|rev|tr)\b[^\n|]{{0,80}}\|\s{{0,4}}{_SHELL}(?![\w-])",
        r"\bn(?:c|cat)\s(?:-\w{1,6}\s){0,4}-\w{0,6}e\s",
        r"\b(?:eval|exec)\([^\n]{0,60}(?:urlopen|requests\.get|fetch\(|b64decode|atob\()",
        rf"\|\s{{0,4}}(?:sudo\s{{1,4}})?{_SHELL}\s{{0,3}}(?:$|[\n;&`'\")]|-s\b)",
    ),
)
REMEMBERED = signs(
    "wants to be remembered",
    "remember",
    r"(?<![\w.\"'])remember\s{0,2}[:!]\s{0,4}(?!true|false|bool|str|num|int|null|none|func|any|undefined)[a-z`'\"*$<(]",
)
