from __future__ import annotations

import json
import re
import string
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warmstart.errors import ConfigError
from warmstart.redact.redactor import PERSONAL, Redactor, redact
from warmstart.redact.values import REPLACEMENT, is_dummy
from warmstart.redact.vendors import SHAPES

# Made up for these tests; none of them opens anything.
AWS = "wJ8lrZUtnFEMI/K7MDE9G/bPxRfiCYqz4Tu0eX1a"
HEX = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b"


PLAIN = Redactor()


def found(text: str, **options: object) -> list[str]:
    redactor = Redactor(**options) if options else PLAIN  # type: ignore[arg-type]
    return [text[finding.start : finding.end] for finding in redactor.find(text)]


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (f"AWS_SECRET_ACCESS_KEY={AWS}", AWS),
        (f"aws_secret_access_key = {AWS}", AWS),
        (f'{{"secretAccessKey": "{AWS}"}}', AWS),
        (f"export API_KEY='{HEX[:32]}'", HEX[:32]),
        ("password: Tr0ub4dor&3xyz", "Tr0ub4dor&3xyz"),
        ('db_password = "c0rrect-h0rse-battery"', "c0rrect-h0rse-battery"),
        ("PGPASSWORD=xK9#mP2$vL5nQ8wR psql", "xK9#mP2$vL5nQ8wR"),
        ("mysql --password hunter2hunter9", "hunter2hunter9"),
        ("spring.datasource.password=S3cr3tP4ss!", "S3cr3tP4ss!"),
        ("<password>zaq12wsxCDE3</password>", "zaq12wsxCDE3"),
        ('clientSecret: "4f7Kd0_9sLmQ2xZt8vBn1"', "4f7Kd0_9sLmQ2xZt8vBn1"),
        ('os.environ.setdefault("SESSION_TOKEN", "h7Gk29dLmPq83Zx0Vb")', "h7Gk29dLmPq83Zx0Vb"),
        ("X-Api-Key: 7d8f9a0b1c2d3e4f5a6b7c8d9e0f1a2b", "7d8f9a0b1c2d3e4f5a6b7c8d9e0f1a2b"),
        ("GET /v1?access_token=Zx81kQpL0vNm3sT7&limit=5", "Zx81kQpL0vNm3sT7"),
        ("Authorization: Bearer Zm9vYmFyMTIzNDU2Nzg5MHF3ZXJ0", "Zm9vYmFyMTIzNDU2Nzg5MHF3ZXJ0"),
        ("Authorization: Basic bWFyYTpzM2NyM3Q=", "bWFyYTpzM2NyM3Q="),
        ("curl -H 'Authorization: Token 8f3a9c1b7e5d2460'", "8f3a9c1b7e5d2460"),
        ("Cookie: sessionid=k3j4h5g6f7d8s9a0; theme=dark", "k3j4h5g6f7d8s9a0"),
        ("curl -u mara:9fKq2xLz https://example.com", "9fKq2xLz"),
        ("https://mara:9fKq2xLz@git.example.com/tide.git", "https://mara:9fKq2xLz@git.example.com"),
        ("postgres://app:s3cr3tP4ss@db.example.com:5432/tide", "postgres://app:s3cr3tP4ss@db.example.com:5432/tide"),
        ("redis://:p4ssw0rdX@cache:6379/0", "redis://:p4ssw0rdX@cache:6379/0"),
        ("mongodb+srv://u:p4ss@w0rd@c0.mongodb.net/db?w=1", "mongodb+srv://u:p4ss@w0rd@c0.mongodb.net/db?w=1"),
        ("postgres://app:s3%23cr3t%24P4@db:5432/tide", "postgres://app:s3%23cr3t%24P4@db:5432/tide"),
        (f"TIDE_APP_KEY={HEX}", HEX),
        (f'"harbourKey": "{AWS}"', AWS),
        (f"tide token = '{HEX[:32]}'", HEX[:32]),
        (f"the key is {HEX}.", HEX),
        (f"tide SECRET {AWS} and so on", AWS),
        ("TIDE_API_KEY=c55dbac4-e0e8-4a06-b892-75cac2387ce5", "c55dbac4-e0e8-4a06-b892-75cac2387ce5"),
        ("<secret>{tide AQAAABAAA 5iqW7gKQVXvwnykF9xAVfenemmnUJznI}</secret>", "5iqW7gKQVXvwnykF9xAVfenemmnUJznI"),
        ("db_pass: 'h4rb0ur>l1ght'", "h4rb0ur>l1ght"),
        ("if (password !== 'PaS5w0rD2#') {", "PaS5w0rD2#"),
        ("def connect(passwd: str = 'cq2tPr1a2'):", "cq2tPr1a2"),
        ("CREATE USER tide IDENTIFIED BY 'SqLpa5sW0rD';", "SqLpa5sW0rD"),
        ("machine example.com login mara password 012345abcdeg", "012345abcdeg"),
        ("Connect-Server -User mara -Password Tide1!Tide", "Tide1!Tide"),
        ("the password is Tr0ub4dor&3, do not tell", "Tr0ub4dor&3"),
        (
            "define('AUTH_KEY',    'kzg O;k$F_-W68 Fl*iEekX;-pn=fNS(;c9nDKt;5RW(&jtESXsW9+PhQFS!Tv1')",
            "kzg O;k$F_-W68 Fl*iEekX;-pn=fNS(;c9nDKt;5RW(&jtESXsW9+PhQFS!Tv1",
        ),
        ("\x1b[92mghp_aB3dE5gH7jK9mN1pQ3rS5tU7vW9xY1zA3bC5\x1b[0m", "ghp_aB3dE5gH7jK9mN1pQ3rS5tU7vW9xY1zA3bC5"),
        (f"token={AWS.replace('/', 'x') * 30}", AWS.replace("/", "x") * 30),
    ],
)
def test_a_named_or_framed_secret_is_found_exactly(text: str, secret: str) -> None:
    assert found(text) == [secret]


@pytest.mark.parametrize(
    "key",
    [
        "hf_aBcDeFgHiJkLmNoPqRsTuVwXyZaBcDeFgH",
        "GR1348941aB3dE5gH7jK9mN1pQ3rS",
        "sgp_AaD80dc6E02eCAE1_d3cba16CC0F18fA14A2EFB61CbDFceEBf9fAD16b",
        "glc_eyJvIjoiMTIzNDUiLCJuIjoidGVzdCIsImsiOiJhYmMifQ==",
        "sk-aB3dE5gH7jK9mN1pQ3rS5tU7",
    ],
)
def test_shapes_with_a_condition_are_found(key: str) -> None:
    assert found(f"key {key}.") == [key]


UNCONDITIONAL = [
    shape for shape in SHAPES if "(?=" not in shape.pattern.pattern and "(?!" not in shape.pattern.pattern[80:-20]
]


@pytest.mark.parametrize("shape", UNCONDITIONAL, ids=lambda shape: f"{shape.kind}-{shape.anchors[0]}")
def test_every_known_shape_is_found_alone_and_in_a_sentence(shape: object) -> None:
    @given(st.from_regex(shape.pattern, fullmatch=True, alphabet=string.printable[:95]))  # type: ignore[attr-defined]
    @settings(max_examples=2, deadline=None, derandomize=True)
    def check(key: str) -> None:
        if is_dummy(key):
            return
        match = shape.pattern.search(key)  # type: ignore[attr-defined]
        secret = match.group("secret") if "secret" in match.re.groupindex else match.group()
        for text in (key, f"the key is {key} and no other", f'{{"value": "{key}"}}'):
            pieces = found(text)
            assert secret in " ".join(pieces) or any(secret in each or each in secret for each in pieces), text

    check()


@pytest.mark.parametrize(
    "text",
    [
        f"commit {HEX}",
        "session 3f0c1d52-7b8e-4e0a-9c41-5d2ab6f0e917",
        "msg_01QsjUKj2qiHGGqN8tpRTCRh toolu_016kbi3mYJH45pnJkXUSKnRf call_29FVNRlvqBO8HEMPosYQImE9",
        "req_011CXJqfBdHc4XoEM4owuAdu",
        '"integrity": "sha512-0a31fc7ee2cca8f25aacafb0fae1c5d27e8c4d3ecbf3eea76e9c4be73f6d4f3b27c00fc99e83c8c=="',
        "/home/mara/tidewatch/src/secrets/token_store_v2.py:120",
        "requests==2.32.3 password-strength==0.0.3.post2",
        "API_KEY=<your-key> TOKEN=xxxxxxxxxxxxxxxx SECRET=$API_KEY password=${PASSWORD} apikey={{ key }}",
        "password = os.environ['DB_PASSWORD']",
        "token = get_token(user_id=42)",
        "const apiKey = process.env.TIDE_API_KEY ?? ''",
        "secret: config.auth.secretKey2",
        "max_tokens: 4096, total_tokens=18231, token_count: 77",
        "def reset_password(password: str, token: str | None = None) -> None:",
        "The password field must not be empty; see PasswordInput1.",
        'public_key = "9Cnzj4p4WGeKLs1Pt8QuKUpRKfFLfRYC9AIKjbJTWit"',
        "csrf_token=Mj2qykJO5rELyHgezQ69nzUX0i3OH67V7",
        "AKIAIOSFODNN7EXAMPLE is the example of Amazon's manual",
        "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAn6\n-----END PUBLIC KEY-----",
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
        "postgres://user:password@localhost/db https://${USER}:${PASS}@example.com",
        "git@github.com:mara/tidewatch.git ssh://git@example.com/x https://example.com/@mara/post",
        "docker run -u 1000:1000 tide",
        "Authorization: Bearer <token>",
        '"password": 12345678',
        "cache restored from key: mise-v0-linux-x64-f804a68745ce7318dacd9fc03814b81b50963133",
        f"cache_key = '{HEX}' and node_key: '{HEX}'",
        'key: "3f0c1d52-7b8e-4e0a-9c41-5d2ab6f0e917" public_key=9Cnzj4p4WGeKLs1Pt8QuKUpRKfFLfRYC',
        "let signing_key = signing_key_from_private_key_pkcs8_base64(key);",
        "password: &SecretString, passphrase: BASE64.encode(blob), passwordLabel:'Password:',rememberMe1:'x'",
        "bypass: r4ndom1zed2value and the compass=North12345",
        "the password is required, the password is sha256-hashed, the user password sha256 hash",
        'this.addPassword = "#add-password"; "password": "&lt;YOURPASSWORD1&gt;"',
        "token bucket with 1000000 tokens per window_2024_06_18 and key design/2024-06-18-notes.md",
    ],
)
def test_what_only_looks_like_a_secret_is_left_alone(text: str) -> None:
    assert found(text) == []


def test_a_finding_says_kind_and_place_and_is_known_again() -> None:
    key = "ghp_" + "aB3dE5gH7jK9mN1pQ3rS5tU7vW9xY1zA3bC5"
    first, second = redact(f"one {key}, two {key}").findings
    assert (first.kind, first.start, first.end) == ("gh-token", 4, 44)
    assert first.fingerprint == second.fingerprint
    assert re.fullmatch(r"[0-9a-f]{16}", first.fingerprint)
    assert redact(f"<{key}>").text == f"<[redacted:gh-token:{first.fingerprint[:4]}]>"


def test_a_fingerprint_depends_on_the_key() -> None:
    text = "password=S3cr3tP4ss!"
    assert Redactor(key=b"a").find(text)[0].fingerprint != Redactor(key=b"b").find(text)[0].fingerprint


def test_a_private_key_goes_as_a_whole() -> None:
    body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQDndJt7NaG8T64x" * 3
    block = f"-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----"
    assert found(f"a\n{block}\nb") == [block]
    cut = f"-----BEGIN OPENSSH PRIVATE KEY-----\n{body}\n"
    assert found(cut + "[output cut]") == [cut]
    (inside,) = found(json.dumps({"private_key": block + "\n"}))
    assert inside.endswith("-----END RSA PRIVATE KEY-----")


def test_overlapping_findings_become_one() -> None:
    token = "glpat-" + "aB3dE5gH7jK9mN1pQ3rS"
    redacted = redact(f"https://oauth2:{token}@gitlab.example.com/x.git")
    assert len(redacted.findings) == 1
    assert token not in redacted.text


def test_an_escape_before_a_secret_stays_whole() -> None:
    text = json.dumps({"x": f"<secret>{{tide \u00e9{HEX} </secret>"})
    redacted = redact(text)
    assert json.loads(redacted.text)["x"].startswith("<secret>{tide \u00e9[redacted:")


def test_personal_data_is_found_when_asked_for() -> None:
    text = "mara@example.com called +49 30 1234567 from /home/mara/tide and C:\\Users\\jonas\\x"
    assert found(text) == []
    assert found(text, personal=PERSONAL) == ["mara@example.com", "+49 30 1234567", "mara", "jonas"]
    assert found(text, personal=["email"]) == ["mara@example.com"]


def test_users_patterns_and_allowed_strings() -> None:
    redactor = Redactor(patterns={"acme-token": r"acme_[0-9a-f]{8}"}, allow=["S3cr3tP4ss!"])
    redacted = redactor.redact("acme_00ff00ff password=S3cr3tP4ss! password=0th3rP4ss!")
    assert [finding.kind for finding in redacted.findings] == ["acme-token", "password"]
    assert "S3cr3tP4ss!" in redacted.text
    with pytest.raises(ConfigError, match="acme"):
        Redactor(patterns={"acme": "["})
    with pytest.raises(ConfigError, match="small letters"):
        Redactor(patterns={"Acme Token": "x"})


# -- properties

PIECES = st.sampled_from(
    [
        *(
            "password=",
            "secret: ",
            '"token": "',
            "api_key => '",
            "_key=",
            "pass is ",
            "<secret>{",
            "</",
            "token - ",
            "'",
            "Authorization: Bearer ",
            "Cookie: a=",
            "https://u:",
        ),
        *("-----BEGIN PRIVATE KEY-----\n", "-----END PRIVATE KEY-----", "S3cr3tP4ss!", AWS, HEX, "sk-ant-api03-"),
        *("ghp_aB3dE5gH7jK9mN1pQ3rS5tU7vW9xY1zA3bC5", "[redacted:jwt:00ff]", "[redacted:", "@host/", "\\", '"', "\n"),
        *(
            "eyJhbGciOiJIUzI1NiJ9.",
            "é",
            "İ",
            "日本",
            "😀",
            "\ud83d",
            " ",
            "=",
            "://",
            "mara@example.com",
            "+49 30 1234567",
        ),
    ]
)
TEXTS = st.lists(PIECES | st.text(max_size=12), max_size=14).map("".join)
REDACTOR = Redactor(personal=PERSONAL)


@given(TEXTS)
@settings(max_examples=150, deadline=None)
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    once = REDACTOR.redact(text).text
    assert REDACTOR.redact(once).text == once


@given(TEXTS)
@settings(max_examples=150, deadline=None)
def test_nothing_but_the_findings_is_touched(text: str) -> None:
    redacted = REDACTOR.redact(text)
    at, rest = 0, redacted.text
    for finding in redacted.findings:
        assert at <= finding.start < finding.end <= len(text)
        plain = text[at : finding.start]
        assert rest.startswith(plain + finding.replacement)
        assert REPLACEMENT.fullmatch(finding.replacement)
        rest = rest[len(plain) + len(finding.replacement) :]
        at = finding.end
    assert rest == text[at:]


@given(
    st.recursive(
        TEXTS | st.none() | st.integers() | st.booleans(),
        lambda x: (
            st.lists(x, max_size=4)
            | st.dictionaries(TEXTS | st.sampled_from(["password", "api_key", "token"]), x, max_size=4)
        ),
        max_leaves=12,
    ),
    st.booleans(),
)
@settings(max_examples=100, deadline=None)
def test_json_stays_json(value: object, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    json.loads(REDACTOR.redact(text).text)
    nested = json.dumps({"arguments": text}, ensure_ascii=ascii_only)
    json.loads(REDACTOR.redact(nested).text)


@given(TEXTS)
@settings(max_examples=50, deadline=None)
def test_the_same_text_gives_the_same_result(text: str) -> None:
    assert REDACTOR.redact(text) == Redactor(personal=PERSONAL).redact(text)


@pytest.mark.parametrize(
    "unit",
    [
        "a",
        "password=",
        "api_key=",
        "secret=secret",
        "://",
        "a://b:c@",
        "-----BEGIN PRIVATE KEY-----",
        "sk-ant-",
        ".G",
        "1Q~",
        "cookie: a=b1;",
        "eyJaaaaaaaaaaa.",
        "@",
        "+12 34",
        "[redacted:",
        "İpassword=",
        '\\"password\\": \\"',
        "key='",
        "<secret>{a ",
        "token is ",
        "a1'b2\" pass='",
        "-us",
        "sk-a",
        "NRAL",
        "JQQJ99",
        "MTA",
    ],
)
@pytest.mark.parametrize("longest", [150_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_hostile_text_takes_time_in_proportion_to_its_length(unit: str, longest: int) -> None:
    def seconds(length: int) -> float:
        text = (unit * (length // len(unit) + 1))[:length]
        began = time.process_time()
        REDACTOR.redact(text)
        return time.process_time() - began

    seconds(10_000)
    small, large = seconds(longest // 10), seconds(longest)
    assert large < 10
    assert large < 40 * small + 0.2 * longest / 1_000_000
