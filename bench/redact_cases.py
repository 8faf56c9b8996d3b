"""Generated texts for the redaction benchmark: secrets by kind and by context, and texts that are slow to scan.

None of the secrets are real. The same seed gives the same texts.
"""

from __future__ import annotations

import random
import re
import string
from collections.abc import Iterator
from re import _parser as parser  # type: ignore[attr-defined]  # parses a pattern into a tree
from typing import Any, NamedTuple
from urllib.parse import quote

from warmstart.redact.rules import ENCODED_KEYS, PASSWORD_NAMES, PLACES, SECRET_NAMES, SHAPES

ALNUM = string.ascii_letters + string.digits
WORDS = [
    *("tide", "harbour", "summer", "winter", "dragon", "monkey", "storm", "welcome", "orange", "castle", "river"),
    *("silver", "football", "sunshine", "purple", "flower"),
]
LEET = str.maketrans("aeios", "@310$")


class Case(NamedTuple):
    """A text with a secret, its kind, and its position."""

    kind: str
    place: str
    text: str
    secret: str


# -- secrets by kind and place

KINDS = {
    "alnum 12": lambda r: _draw(r, ALNUM, 12),
    "alnum 16": lambda r: _draw(r, ALNUM, 16),
    "alnum 24": lambda r: _draw(r, ALNUM, 24),
    "alnum 40": lambda r: _draw(r, ALNUM, 40),
    "lower 20": lambda r: _draw(r, string.ascii_lowercase + string.digits, 20),
    "hex 32": lambda r: _draw(r, string.hexdigits[:16], 32),
    "base64": lambda r: _draw(r, ALNUM + "+/", 42) + "==",
    "password, made up": lambda r: _made_up(r),
    "password, drawn": lambda r: _draw(r, ALNUM, 1) + _draw(r, ALNUM + "!@#%^*_-", 13),
}
NAMES = [
    *("API_KEY", "client_secret", "access_token", "secretKey", "apiKey", "auth_token", "JWT_SECRET", "secret_key_base"),
    *("GITHUB_TOKEN", "password", "DB_PASSWORD", "passwd", "REDIS_PASS", "dbPassword"),
]
PLACE_FORMATS = {
    "env": "{name}={value}\n",
    "export": "export {name}='{value}'",
    "docker -e": "docker run -e {name}={value} image",
    "YAML": "db:\n  {name}: {value}\n",
    "YAML, quoted": '  {name}: "{value}"\n',
    "YAML name and value": "- name: {name}\n  value: {value}\n",
    "INI": "[db]\n{name} = {value}\n",
    "JSON": '{{"user": "mara", "{name}": "{value}"}}',
    "JSON in JSON": '{{"arguments": "{{\\"{name}\\": \\"{value}\\"}}"}}',
    "XML": "<{name}>{value}</{name}>",
    "HTML entities": "&quot;{name}&quot;: &quot;{value}&quot;",
    "assignment": "const {name} = '{value}';",
    "keyword argument": 'connect(host, {name}="{value}")',
    "index": "config['{name}'] = '{value}'",
    "fallback ||": 'const x = process.env.{name} || "{value}";',
    "fallback or": 'x = os.environ.get("{name}") or "{value}"',
    "fallback get": '{name} = os.environ.get("{name}", "{value}")',
    "query": "https://api.example.com/cb?x=1&{name}={quoted}&y=2",
    "query, encoded": "next%3Dx%26{name}%3D{quoted}%26y",
    "option": "deploy --{name}={value} --now",
    "option, spaced": "deploy --{name} {value} --now",
    "header": "X-{name}: {value}\n",
    "table": "| {name} | {value} |\n",
    "table, code": "| `{name}` | `{value}` |\n",
    "Markdown": "- **{name}**: `{value}`\n",
    "coloured": "\x1b[33m{name}\x1b[0m=\x1b[32m{value}\x1b[0m",
    "prose": "the {name} is '{value}', I think",
    "comment": "# {name}: {value}\n",
    "HTML table": "<tr><td>{name}</td><td>{value}</td></tr>",
}
COMMANDS = {
    "sshpass": "sshpass -p {value} ssh mara@host",
    "command as a list": '["sshpass", "-p", "{value}", "ssh", "host"]',
    "YAML block": "password: |\n  {value}\nuser: mara\n",
    "table with a heading": "| user | password |\n| --- | --- |\n| mara | {value} |\n",
    "CSV": "user,password\nmara,{value}\n",
    "stdin": "echo {value} | docker login -u mara --password-stdin",
    "mysql -p": "mysql -u root -p{value} tide",
    "docker login": "docker login -u mara -p {value} registry.example.com",
    "keytool": "keytool -list -storepass {value}",
    "chpasswd": "echo 'mara:{value}' | sudo chpasswd",
    "curl -u": "curl -u mara:{value} https://example.com",
    "curl bearer": "curl --oauth2-bearer {value} https://example.com",
    "CURLOPT": "curl_setopt($ch, CURLOPT_USERPWD, 'mara:{value}');",
    "PowerShell": 'ConvertTo-SecureString "{value}" -AsPlainText -Force',
    "IDENTIFIED BY": "CREATE USER mara IDENTIFIED BY '{value}';",
    "pgpass": "db.example.com:5432:tide:mara:{value}\n",
    "cookie jar": ".example.com\tTRUE\t/\tTRUE\t1999999999\tsid\t{value}\n",
    "cookie header": "Cookie: theme=dark; sid={value}",
    "SQL insert": "INSERT INTO users (id, name, password) VALUES (1, 'mara', '{value}');",
    "SQL copy": "COPY users (id, name, password) FROM stdin;\n1\tmara\t{value}\n\\.\n",
    "URL": "postgres://mara:{quoted}@db.example.com:5432/tide",
    "bearer": "Authorization: Bearer {value}",
    "Passwort": "Passwort: {value}",
    "contraseña": "contraseña: {value}",
    "密码": "密码：{value}",
    "for NAME": "password for mara: {value}",
    "ID/Password": "ID:mara/Password:{value}",
    "behind a marker": "password=[redacted:password:abcd]{value}",
}


def positives(seed: int = 7, each: int = 6) -> Iterator[Case]:
    """Secrets of every kind in every context, and one key of every known shape in a sentence, in JSON and in code."""
    rnd = random.Random(seed)
    for kind, make in KINDS.items():
        names = [name for name in NAMES if not kind.startswith("password") or "pass" in name.lower()]
        for place, form in PLACE_FORMATS.items():
            for _ in range(each):
                yield _case(kind, place, form, make(rnd), rnd.choice(names))
    for place, form in COMMANDS.items():
        for kind in (
            ("alnum 24", "password, made up") if "earer" not in place and "ookie" not in place else ("alnum 40",)
        ):
            for _ in range(each):
                yield _case(kind, place, form, KINDS[kind](rnd), "")
    for shape, _ in SHAPES:
        found = shape.regex.search(sample := random_match(shape.pattern, rnd))
        secret = found["secret"] if found and "secret" in found.re.groupindex else sample
        for place, form in (("sentence", "the key is {value} and no other"), ("JSON value", '{{"value": "{value}"}}')):
            yield _case("known shape", place, form, sample, "")._replace(secret=secret)


def _case(kind: str, place: str, form: str, value: str, name: str) -> Case:
    quoted = quote(value, safe="")
    return Case(
        kind, place, form.format(name=name, value=value, quoted=quoted), quoted if "{quoted}" in form else value
    )


def _draw(rnd: random.Random, signs: str, length: int) -> str:
    return "".join(rnd.choice(signs) for _ in range(length))


def _made_up(rnd: random.Random) -> str:
    word, other = rnd.choice(WORDS), rnd.choice(WORDS)
    return rnd.choice(
        [
            f"{word.capitalize()}{rnd.randrange(1970, 2027)}",
            f"{word.capitalize()}@{rnd.randrange(10, 9999)}",
            f"{word.capitalize().translate(LEET)}{rnd.choice('!#@')}",
            f"{word}{other}{rnd.randrange(10, 99)}",
            f"{word.capitalize()}{other.capitalize()}{rnd.choice('!#%*')}{rnd.randrange(9)}",
            f"{word}-{other}-{rnd.randrange(10, 99)}",
        ]
    )


# -- texts that are slow to scan


def hostile_units(seed: int = 7) -> Iterator[tuple[str, str]]:
    """For every rule, texts to repeat: its keywords, a match, and a near match."""
    rnd = random.Random(seed)
    for rule, _ in (*SHAPES, *PLACES):
        sample = random_match(rule.pattern, rnd)
        yield f"{rule.meaning} {rule.keywords[0]!r}", rule.keywords[0]
        yield f"{rule.meaning} {rule.keywords[0]!r} whole", sample + " "
        yield f"{rule.meaning} {rule.keywords[0]!r} cut", sample[: max(len(rule.keywords[0]), len(sample) * 2 // 3)]
        yield f"{rule.meaning} {rule.keywords[0]!r} on and on", f"{rule.keywords[0]}aA1"
    for name in sorted(PASSWORD_NAMES | SECRET_NAMES):
        yield f"name {name!r}", f"{name} "
        yield f"name {name!r} bare", f"{name}="
        yield f"name {name!r} value", f'{name}: "a1B2c3D4e5" '
        yield f"name {name!r} fallback", f"{name} = x.{name} || "
    for key in ENCODED_KEYS:
        yield f"encoded {key!r}", key
    for unit in (
        *("AQVNaA1", "cookie: a=b1c2d3e4f5g6;", "cookie: a=b1c2d3e4f5g6; ", "[redacted:password:00ff]", "[redacted:"),
        *(
            "password=[redacted:password:00ff]a1b2c3",
            "://",
            "a://b:c@",
            "https://a:b1c2d3@h ",
            "-----BEGIN PRIVATE KEY-----",
        ),
        *(
            "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj\n",
            "authorization: bearer ",
            "bearer a1b2c3d4",
        ),
        *(
            "authorization: Bearer a1b2c3d4e5f6g7h8 ",
            "curl -u a:b1c2d3 ",
            "echo a:b1c2d3 | chpasswd ",
            "chpasswd <<< a:",
        ),
        *(
            "insert into t (password) values ('a1b2c3d4'), ",
            "INSERT INTO t (password",
            "COPY t (password) FROM stdin;\na1b2c3\n",
        ),
        *(
            '\\"password\\": \\"',
            '\\\\\\"',
            "&quot;",
            "%22",
            "\x1b[31m",
            "\x1b[",
            "password\x1b[31m=",
            "<secret>a ",
            "é密码：",
        ),
        *(
            "mara@example.com ",
            "+49 30 1234567 ",
            "/home/mara/",
            "a",
            "\\",
            '"',
            "'",
            "=",
            "\n",
            " ",
            "key='",
            "a1'b2\" pass='",
        ),
    ):
        yield f"text {unit[:30]!r}", unit


def repeat(unit: str, length: int) -> str:
    """A text of about this length. It ends with a whole unit, because part of one may be a secret and cost a pass."""
    return unit * max(1, length // len(unit))


# -- a random match of a pattern


def random_match(source: str, rnd: random.Random) -> str:
    """A random text that matches a pattern, built from its syntax tree; lookaheads are ignored."""
    for _ in range(200):
        text = _sample(parser.parse(source), rnd, {})
        if re.search(source, text, re.IGNORECASE):
            return text
    raise ValueError(f"no sample for {source!r}")


def _sample(tree: Any, rnd: random.Random, groups: dict[int, str]) -> str:
    return "".join(_sample_node(str(kind), value, rnd, groups) for kind, value in tree)


def _sample_node(kind: str, value: Any, rnd: random.Random, groups: dict[int, str]) -> str:
    match kind:
        case "LITERAL":
            return chr(value)
        case "NOT_LITERAL":
            return "a"
        case "ANY":
            return "a"
        case "IN":
            return _draw_from(value, rnd)
        case "BRANCH":
            return _sample(rnd.choice(value[1]), rnd, groups)
        case "SUBPATTERN":
            groups[value[0] or 0] = text = _sample(value[3], rnd, groups)
            return text
        case "GROUPREF":
            return groups.get(value, "")
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            low, high, tree = value
            times = rnd.randint(low, min(high, low + 3)) if low else rnd.randint(0, min(high, 12))
            return "".join(_sample(tree, rnd, groups) for _ in range(times))
        case "ASSERT" if value[0] < 0:
            return _sample(value[1], rnd, groups)
        case _:
            return ""  # a lookahead, a negative assertion, or a position


def _draw_from(items: Any, rnd: random.Random) -> str:
    signs = []
    for kind, value in items:
        match str(kind):
            case "NEGATE":
                return rnd.choice(ALNUM)
            case "LITERAL":
                signs.append(chr(value))
            case "RANGE":
                signs.append(chr(rnd.randint(*value)))
            case "CATEGORY":
                signs.append({"CATEGORY_DIGIT": "7", "CATEGORY_SPACE": " "}.get(str(value), rnd.choice(ALNUM)))
    return rnd.choice(signs)
