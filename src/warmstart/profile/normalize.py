"""A line of an error without what varies between occurrences: paths, numbers, ids, quoted text.

The rest is read in tables and shared, so each placeholder says what it replaced.
"""

from __future__ import annotations

import re
from functools import lru_cache

MAX_LENGTH = 160
_MAX_LINE = 600  # characters of a line that are read

_EXTENSIONS = "|".join(
    (
        "py|pyi|pyc|ipynb|js|jsx|mjs|cjs|ts|tsx|mts|cts|vue|svelte|go|rs|java|kt|kts|scala|c|cc|cpp|cxx|h|hh|hpp|cs|fs",
        "rb|php|swift|m|mm|ex|exs|erl|hs|ml|lua|pl|r|jl|dart|zig|sh|bash|zsh|fish|ps1|bat|sql|json|jsonl|json5|yaml|yml",
        "toml|ini|cfg|conf|env|lock|mod|sum|xml|html|htm|css|scss|sass|less|md|mdx|rst|txt|log|csv|tsv|parquet|db|sqlite",
        "png|jpg|jpeg|gif|svg|pdf|zip|tar|gz|tgz|whl|jar|class|so|dylib|dll|exe|o|a|wasm|proto|graphql|tf|gradle|plist",
        "properties|snap|patch|diff",
    )
)
_URL = re.compile(r"\b[a-zA-Z][a-zA-Z0-9+.-]{1,20}://[^\s\"'`<>()\[\]]*|\bwww\.[^\s\"'`<>()\[\]]+")
_EMAIL = re.compile(r"(?<![\w.+/-])[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){0,4}\.[A-Za-z]{2,20}\b")
_QUOTED = re.compile(
    r"""(?<![\w‹])"(?:[^"\\\n]|\\.)*" | `[^`'\n]*(?:`|'(?=[\s.,:;)]|$)) | `[^`\n]*`
      | (?<![\w›])'(?:[^'\n]|(?<=\w)'(?=\w))*'(?!\w) | “[^”\n]*” | ‘[^’\n]*’ | «[^»\n]*»""",
    re.VERBOSE,
)
_PATH = re.compile(
    r"""(?:(?<![\w‹›/\\])[A-Za-z]:[\\/][^\s"'`,;:()<>|]*            # Windows
        | (?<![\w‹›/.~@-])(?:~|\.{1,2})?/(?![\s/])[^\s"'`,;:()<>|\[\]{}]+      # absolute, home, ./ and ../
        | (?<![\w‹›/.@+-])@?[\w.+-]+(?:/[\w.@+*-]+)+/?                # with a slash in it
        | (?<![\w‹›/.@+-])\.?[\w+-]+(?:\.[\w+-]+)*\.(?:"""
    + _EXTENSIONS
    + r""")(?![\w./])
        )(?::\d+(?:[:-]\d+)*|\(\d+(?:,\d+)*\))?:?(?<![:])""",
    re.VERBOSE | re.ASCII,
)
_UUID = re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b")
_DATE = re.compile(r"\b\d{4}[-/]\d{2}[-/]\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?(?:[.,]\d+)?(?:Z|[+-]\d{2}:?\d{2})?)?(?!\w)")
# Numbers that identify the error stay: exit codes, errno, HTTP status, the codes of MCP, curl and databases.
_ERROR_NUMBER = re.compile(
    r"(?:\bHTTP(?:/\d(?:\.\d)?)? |\bexit(?:ed with| status)?(?: code)?:? |\bstatus(?: code)?:? |\b[Ee]rrno "
    r"|\bMCP error |\bERROR (?=\d{4}\b)|\bcode:? |\bcurl: \()(-?\d{1,6})(?![\w.:,]\d|\w)"
)
_NUMBER = re.compile(
    r"(?<![\w‹])[-+]?[$€£#v]?\d[\d_]*(?:[.,:x-]\d+)*"
    r"(?:\s?(?:%|ms|secs?|seconds?|minutes?|[kKMGT]i?B|bytes?|[smhd])\b)?(?!\w)"
)
_ID = re.compile(r"(?<![\w‹@.])#?(?=[\w-]*\d)[A-Za-z_][\w-]*|(?<![\w‹@.])#?\d[\w-]*", re.ASCII)
# Words with a digit that are no ids: error codes, programs, types.
_WORD = re.compile(
    r"E\d{4}|TS\d{4,5}|CS\d{4}|SC\d{4}|SIG[A-Z]+\d?|python\d?|pip\d|utf-?(?:8|16|32)|sha(?:1|256|512)|md5|base64|http[23]"
    r"|ipv[46]|oauth2|u?int(?:8|16|32|64)|[uif](?:8|16|32|64)|float(?:32|64)|x86_64|arm64|amd64|k8s|s3|ec2|e2e|sqlite3"
)
_NAMES = re.compile(
    r"(?<![\w‹./])[*&]?(?:[A-Za-z_]\w*(?:\.|::|->|\#))+[A-Za-z_]\w*(?:\(\))?|"
    r"\b[A-Za-z_]\w*\(\)|\b[a-z]+[A-Z]\w*\b|\b[A-Z][a-z0-9]+[A-Z]\w*\b"
    r"|\b[A-Za-z]+_\w+\b",
    re.ASCII,
)
_CALL = re.compile(
    r"(?<![\w‹./])(?:[A-Za-z_$][\w$]*(?:\.|::))*[A-Za-z_$][\w$]*\(\)|"
    r"(?<![\w‹./@-])(?:[A-Za-z_$][\w$]*(?:\.|::))+[A-Za-z_$][\w$]+(?![\w/(‹])"
)
# What an error calls unknown or missing is a name.
_AFTER_COLON = re.compile(
    r"(\b(?:unknown|undefined|no such|not found|missing|invalid|unrecognized|unexpected|"
    r"duplicate|unresolved)\b[^:‹]{0,40}: )"
    r"(?!‹)[\w.@/-]+$",
    re.IGNORECASE,
)
_NOUN = re.compile(
    r"(\b(?:tool|function|method|field|parameter|argument|property|key|column|table|"
    r"variable|attribute|module|package|class) )"
    r"(?:\w+_\w+|[a-z]+[A-Z]\w*)(?!\w)"
)
_OPERAND = re.compile(r" -- \S+$")
_SUBJECT = re.compile(r"(?:(?<=: )|^)[\w$.]+ is not (defined|an? function|a constructor|iterable)\b")
# A quote that is not closed: what follows is quoted up to the end of the line.
_OPEN_QUOTE = re.compile(r"(?:(?<=[\s(:=\[])|^)[\"'`“‘«]\S.*$")
_REPEATED = re.compile(r"(‹\w+›)(?:(?:,| and| or|;| \||:)?\s*\1)+")
_SPACES = re.compile(r"\s+")
_DEBRIS = " \t\n.,:;-–—=*|·•>!│┃╷╵└├─━═^~\"'`#"
_OPENING = {")": "(", "]": "[", "}": "{"}


@lru_cache(maxsize=2048)
def normalize(line: str, *, names: bool = False) -> str:
    """One line with placeholders for what varies; with `names` also for names in program text."""
    line = _SPACES.sub(" ", line[:_MAX_LINE]).strip()
    line = _URL.sub("‹url›", line)
    if "@" in line:
        line = _EMAIL.sub("‹email›", line)
    line = _OPEN_QUOTE.sub("‹text›", _QUOTED.sub("‹text›", line))
    if ": " in line:
        line = _AFTER_COLON.sub(r"\1‹name›", line)
    line = _OPERAND.sub("", _SUBJECT.sub(r"‹name› is not \1", line))
    line = _NOUN.sub(r"\1‹name›", line)
    if "-" in line:
        line = _DATE.sub("‹date›", _UUID.sub("‹id›", line))
    line = _PATH.sub(_path, line)
    line = (_NAMES if names else _CALL).sub(_name, line)
    if any(map(str.isdigit, line)):
        line = _numbers(line)
    line = _REPEATED.sub(r"\1", line)
    return trim(line)


def _path(found: re.Match[str]) -> str:
    return "‹path›." if found[0].endswith(".") else "‹path›"  # the full stop ends the sentence


def _name(found: re.Match[str]) -> str:
    """An error class keeps its name, without its modules; any other name becomes a placeholder."""
    last = re.split(r"\.|::", found[0])[-1]
    return last if last.endswith(("Error", "Exception", "Warning")) else "‹name›"


def _numbers(line: str) -> str:
    numbers: list[str] = []

    def keep(found: re.Match[str]) -> str:
        numbers.append(found[1])
        return found[0][: -len(found[1])] + "\0"

    line = _ERROR_NUMBER.sub(keep, line.replace("\0", ""))
    line = _NUMBER.sub("‹n›", line)
    line = _ID.sub(_id, line)
    for number in numbers:
        line = line.replace("\0", number, 1)
    return line


def _id(found: re.Match[str]) -> str:
    word = found[0]
    return word if _WORD.fullmatch(word) else "‹id›"


def trim(line: str) -> str:
    """The line cut at a word after at most 160 characters, without punctuation left over at its ends."""
    if len(line) > MAX_LENGTH:
        line = line[: MAX_LENGTH + 1]
        line = line[: line.rfind(" ")] if " " in line[MAX_LENGTH // 2 :] else line[:MAX_LENGTH]
        if line.rfind("‹") > line.rfind("›"):
            line = line[: line.rfind("‹")]
    before = None
    while before != line:
        before = line
        line = line.strip(_DEBRIS)
        last = line[-1:]
        if last in ("(", "[", "{") or (last in _OPENING and _OPENING[last] not in line):
            line = line[:-1]
    return line


# A sentence ends with a full stop after two letters (`e.g.` does not), or before a list or an object.
_END = re.compile(r"(?<=[\w)\]›][\w)\]›])[.!?](?= |$)|: (?=[{\[])|; ")


def first_sentence(text: str) -> str:
    """The first sentence of a message, normalized, without lists and payload after it."""
    line = normalize(text.strip().partition("\n")[0])
    return trim(_END.split(line, maxsplit=1)[0])
