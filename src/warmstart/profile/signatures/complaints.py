"""What agents' own tools say when they are used wrongly, one wording for a mistake whatever the agent calls it."""

from __future__ import annotations

import re

_KNOWN = tuple(
    (re.compile(pattern, re.IGNORECASE | re.DOTALL), sign)
    for pattern, sign in (
        (
            r"sibling tool call errored|parallel tool call .{0,80}errored|cancelled: parallel",
            "Sibling tool call errored",
        ),
        (r"permission to use .{1,300} (?:has been|was) denied", "Permission to use the tool was denied"),
        (r"tool was called with invalid arguments", "The tool was called with invalid arguments"),
        (
            r"has not been read yet|must (?:first )?read (?:the )?file|"
            r"read .{0,120} (?:before (?:overwriting|editing|writing|modifying))"
            r"|file must be read (?:first|before)|use the read tool first",
            "File has not been read yet",
        ),
        (
            r"has been (?:unexpectedly )?modified since|was modified since|modified on disk|"
            r"changed on disk since|file changed since",
            "File has been modified since read",
        ),
        (
            r"(?:string to replace|old_?string|old_?str|old text|search (?:string|text|block)|"
            r"the string to (?:replace|edit)|exact text)\b.{0,200}?"
            r"\b(?:not found|did not (?:appear|match)|no match|does not (?:exist|match)|"
            r"was not found|could not be found)"
            r"|could not find (?:a match for |the )?(?:old_?string|old_?str|oldtext|"
            r"string to replace|search)"
            r"|could not find the string to replace|0 occurrences found for old_string|"
            r"no replacement was performed[,.] .{0,20}old_str"
            r"|no match(?:es)? found for (?:old_?str|the (?:search|old))",
            "String to replace not found in file",
        ),
        (
            r"found (?:\d+|multiple|several) (?:matches|occurrences)|multiple (?:matches|"
            r"occurrences)|expected 1 occurrence|expected \d+ occurrences? but found"
            r"|matches (?:multiple|several) (?:places|locations)|old_?str\w* (?:is not unique|"
            r"appears \d+ times|matched \d+)|not unique in",
            "Found several matches of the string to replace",
        ),
        (
            r"old_?string and new_?string are (?:exactly )?(?:the same|identical)|"
            r"no changes to (?:make|apply)|would result in no changes|new_?str\w* (?:is|"
            r"are) identical",
            "No changes to make: old and new string are the same",
        ),
        (
            r"failed to find (?:expected lines|context)|"
            r"apply_patch verification failed: (?:failed to find|could not find)|"
            r"hunk (?:#?\d+ )?failed",
            "apply_patch: expected lines not found in file",
        ),
        (
            r"invalid patch|invalid hunk|patch (?:text )?(?:is )?(?:invalid|malformed)|no hunks found|"
            r"not a valid (?:patch|hunk)|failed to parse patch|expected .{0,40}\*\*\* (?:begin|"
            r"end) patch",
            "apply_patch: invalid patch",
        ),
        (
            r"eisdir|is a directory|path is not a file|is not a (?:regular )?file\b",
            "EISDIR: illegal operation on a directory",
        ),
        (
            r"exceeds maximum allowed (?:tokens|size)|file (?:is )?too large|content .{0,40}exceeds",
            "File content exceeds maximum allowed size",
        ),
        (r"(?:posix_)?spawn .{0,200}enoent|enoent.{0,60}spawn", "spawn ENOENT: no such program"),
        (
            r"(?:file|path|directory|folder) (?:\S{1,200} )?(?:does not|doesn.t) exist|(?:file|"
            r"path|directory) not found|no such file|enoent"
            r"|(?:path|file|directory) .{0,200}(?:does not exist|not found)$|could not (?:find|"
            r"read) file|failed to read file to update",
            "File does not exist",
        ),
        (r"unknown skill|skill .{0,80}not found", "Unknown skill"),
        (r"agent type .{0,80}not found|unknown (?:sub)?agent", "Agent type not found"),
        (
            r"(?:no such tool available|unknown tool|tool .{0,80}(?:not found|does not exist|"
            r"is not available|not registered)|unsupported call|unsupported tool|"
            r"model tried to call unavailable tool)",
            "Unknown tool",
        ),
        (
            r"request timed out|timed out after|timeout of .{0,20}exceeded|"
            r"timeout .{0,20}exceeded|timed out waiting|operation timed out|etimedout",
            "Timed out",
        ),
    )
)
SIGNS = frozenset(sign for _, sign in _KNOWN)
_PREFIX = re.compile(
    r"^\s*(?:(?:tool )?error(?: (?:executing|calling|running|"
    r"in) (?:the )?(?:tool )?['\"`]?[\w.:-]+['\"`]?)?:\s*|error:\s*|execution error:\s*|"
    r"tool (?:execution|call) (?:failed|error):\s*|err:\s*)+",
    re.IGNORECASE,
)


def known(text: str) -> str:
    """The signature of a mistake that is known by its wording, or nothing."""
    head = text[:400]
    return next((sign for pattern, sign in _KNOWN if pattern.search(head)), "")


def bare(text: str) -> str:
    """A complaint without the words that only say that it is one."""
    return text[found.end() :] if (found := _PREFIX.match(text)) else text
