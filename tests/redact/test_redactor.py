from __future__ import annotations

import json
import re
import string
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warmstart.errors import ConfigError
from warmstart.redact import rules
from warmstart.redact.redactor import PERSONAL, Redactor, redact
from warmstart.redact.rules import SHAPES

# Made up for these tests; none of them opens anything.
AWS = "wJ8lrZUtnFEMI/K7MDE9G/bPxRfiCYqz4Tu0eX1a"
HEX = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b"


PLAIN = Redactor()


def found(text: str, **options: object) -> list[str]:
    redactor = Redactor(**options) if options else PLAIN  # type: ignore[arg-type]
    return [text[finding.start : finding.end] for finding in redactor.find(text)]


NAMED_OR_FRAMED = [
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
    ("password=Admin@1234", "Admin@1234"),
    ('{"password": "P@ssw0rd"}', "P@ssw0rd"),
    ("API_KEY=kQzVnTrWbXpL", "kQzVnTrWbXpL"),
    ("GET /cb?access_token=abGhRtYuIoPl&x=1", "abGhRtYuIoPl"),
    (f"secret_key_base: {HEX * 2}", HEX * 2),
    ('const key = process.env.JWT_SECRET || "harbour-lantern-42";', "harbour-lantern-42"),
    ('SECRET = os.environ.get("JWT_SECRET") or "harbourlantern"', "harbourlantern"),
    ('PASSWORD = os.getenv("DB_PASSWORD", "tidewater9")', "tidewater9"),
    ('login "mara" password "tidewater"', "tidewater"),
    ("password = tidewater22", "tidewater22"),
    ("ID:mara/Password:Tidewater22", "Tidewater22"),
    ("passwords: Tidewater22", "Tidewater22"),
    ("password for mara: tidewater22", "tidewater22"),
    ("the password is: tidewater22", "tidewater22"),
    ("\x1b[33mDB_PASSWORD\x1b[0m=\x1b[32mTidewater22\x1b[0m", "Tidewater22"),
    ("| DB_PASSWORD | tide-water-22 | the database |", "tide-water-22"),
    ("POSTGRES_PASSWORD=tidewater", "tidewater"),
    ("sshpass -p tidewater ssh mara@host", "tidewater"),
    ("mysql -uroot -pX7f9 tide", "X7f9"),
    ("docker login -u mara -p Tidewater22 registry.example.com", "Tidewater22"),
    ("keytool -list -keystore k.jks -storepass Tidewater22", "Tidewater22"),
    ("echo 'mara:Tidewater22' | sudo chpasswd", "Tidewater22"),
    (f"curl --oauth2-bearer {HEX} https://example.com", HEX),
    ("curl_setopt($ch, CURLOPT_USERPWD, 'mara:Tidewater22');", "mara:Tidewater22"),
    ('ConvertTo-SecureString "Tidewater22!" -AsPlainText -Force', "Tidewater22!"),
    ("ALTER USER mara IDENTIFIED WITH mysql_native_password BY 'tidewater';", "tidewater"),
    ("mara:$6$lZL6Vci1$" + "aB3dE5gH7jK9mN1pQ3rS5tU7vW" * 3, "$6$lZL6Vci1$" + "aB3dE5gH7jK9mN1pQ3rS5tU7vW" * 3),
    ("mara:$apr1$lZL6V/ci$eIMz/iKDkbtys/uU7LEK00", "$apr1$lZL6V/ci$eIMz/iKDkbtys/uU7LEK00"),
    ("db.example.com:5432:tide:mara:Tidewater22\n", "Tidewater22"),
    ("*:*:*:mara:Tidewater22\n", "Tidewater22"),
    (".example.com\tTRUE\t/\tFALSE\t1999999999\tsid\tk3j4h5g6f7d8", "k3j4h5g6f7d8"),
    ("INSERT INTO users (id, name, password) VALUES (1, 'mara', 'tidewater');", "tidewater"),
    ("COPY users (id, name, password) FROM stdin;\n1\tmara\ttidewater\n\\.\n", "tidewater"),
    (f'{{"kty": "EC", "crv": "P-256", "d": "{HEX}4f1b"}}', f"{HEX}4f1b"),
    ('{"kty": "oct", "k": "GawgguFyGrWKav7AX4VKUg"}', "GawgguFyGrWKav7AX4VKUg"),
    (f"https://b.example.com/o?X-Amz-Signature={HEX}&x=1", HEX),
    (f"Authorization: SSWS 00{HEX}", f"00{HEX}"),
    ("Passwort: Sommer2024", "Sommer2024"),
    ("contraseña: Verano2024", "Verano2024"),
    ("密码：Tidewater22", "Tidewater22"),
    ("next%3Dx%26password%3DTidewater22%26y", "Tidewater22"),
    ("{&quot;password&quot;: &quot;Tidewater22&quot;}", "Tidewater22"),
    ("password=[redacted:password:abcd]Tidewater22", "Tidewater22"),
    ("password=Tidewater22[redacted:password:abcd]", "Tidewater22"),
    ("password: |\n  tideWater91\nuser: mara", "tideWater91"),
    (f"tokens:\n  - {HEX}\n", HEX),
    ('"passwords": ["tideWater91", "x"]', "tideWater91"),
    ("| user | password |\n| --- | --- |\n| mara | tideWater91 |\n", "tideWater91"),
    (" id | password\n----+----------\n  1 | tideWater91\n(1 row)\n", "tideWater91"),
    ("user,password\nmara,tideWater91\n", "tideWater91"),
    ("<tr><td>Password</td><td>tideWater91</td></tr>", "tideWater91"),
    ("PASSWORD_ROOT=kQ8vN2mz71", "kQ8vN2mz71"),
    (f"API_KEY_TIDE={HEX}", HEX),
    (f'{{"harbourtoken": "{HEX}"}}', HEX),
    ('["sshpass", "-p", "tideWater91", "ssh", "host"]', "tideWater91"),
    ('["curl", "-u", "mara:tideWater91", "https://example.com"]', "tideWater91"),
    ("curl -umara:tideWater91 https://example.com", "tideWater91"),
    ("echo tideWater91 | docker login -u mara --password-stdin", "tideWater91"),
    ("ENV DB_PASSWORD tidewater9", "tidewater9"),
    ('getenv("DB_PASSWORD") ?: "tideWater91"', "tideWater91"),
    ('env::var("DB_PASSWORD").unwrap_or("tideWater91".into())', "tideWater91"),
    ('api_key: str = Field(default="kQ8vN2mz71xLw4Tb")', "kQ8vN2mz71xLw4Tb"),
    ('password: Optional[str] = "tideWater91"', "tideWater91"),
    ('<property name="db.password">tidewater9</property>', "tidewater9"),
    ('{"ParameterKey": "DBPassword", "ParameterValue": "tidewater9"}', "tidewater9"),
    ("Data Source=host;User ID=mara;Pwd=tideWater91;", "tideWater91"),
    ('"password": "83920174"', "83920174"),
    ("Password for 'https://mara@git.example.com': kQ8vN2mz71", "kQ8vN2mz71"),
    ("the password is S3cure$Tide", "S3cure$Tide"),
    (f"statuspage token = '{HEX}'", HEX),
    (f"token = ' {HEX} '", HEX),
    ("Unseal Key 2: 0tZn+7QQCxphpHwTm7/dC3LpP5JGIbYl3PK8Sy81R+P2", "0tZn+7QQCxphpHwTm7/dC3LpP5JGIbYl3PK8Sy81R+P2"),
    (f"X-Auth-User-Service-Key: v1.0-{HEX}-{HEX}", f"v1.0-{HEX}-{HEX}"),
    ("Using Key=2FTJTA1C-BXO0DV4J-HGTP9E62-QHQ5ILY1", "2FTJTA1C-BXO0DV4J-HGTP9E62-QHQ5ILY1"),
    ('user.set_password("tideWater91")', "tideWater91"),
]


def test_a_named_or_framed_secret_is_found_exactly(subtests: pytest.Subtests) -> None:
    for text, secret in NAMED_OR_FRAMED:
        with subtests.test(text):
            assert found(text) == [secret]


def test_shapes_with_a_condition_are_found(subtests: pytest.Subtests) -> None:
    for key in (
        "hf_aBcDeFgHiJkLmNoPqRsTuVwXyZaBcDeFgH",
        "GR1348941aB3dE5gH7jK9mN1pQ3rS",
        "sgp_AaD80dc6E02eCAE1_d3cba16CC0F18fA14A2EFB61CbDFceEBf9fAD16b",
        "glc_eyJvIjoiMTIzNDUiLCJuIjoidGVzdCIsImsiOiJhYmMifQ==",
        "sk-aB3dE5gH7jK9mN1pQ3rS5tU7",
    ):
        with subtests.test(key):
            assert found(f"key {key}.") == [key]


@pytest.mark.hypothesis
def test_every_known_shape_is_found_alone_and_in_a_sentence(subtests: pytest.Subtests) -> None:
    for shape, _ in SHAPES:
        if "(?=" not in shape.pattern and "(?!" not in shape.pattern[80:-20]:
            with subtests.test(f"{shape.meaning} {shape.keywords[0]}"):
                check_shape(shape.regex)


def check_shape(regex: re.Pattern[str]) -> None:
    @given(st.from_regex(regex, fullmatch=True, alphabet=string.printable[:95]))
    @settings(max_examples=settings().max_examples // 12)  # a twelfth for each of hundreds of shapes
    def check(key: str) -> None:
        if rules.PATTERNS.masked.search(key):
            return
        match = regex.search(key)
        assert match is not None
        secret = match.group("secret") if "secret" in match.re.groupindex else match.group()
        for text in (key, f"the key is {key} and no other", f'{{"value": "{key}"}}'):
            pieces = found(text)
            assert secret in " ".join(pieces) or any(secret in each or each in secret for each in pieces), text

    check()


def test_every_pattern_in_the_table_is_used() -> None:
    folder = Path(rules.__file__).parent
    code = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.py"))
    table = tomllib.loads((folder / "rules.toml").read_text(encoding="utf-8"))
    assert set(re.findall(r"PATTERNS\.(\w+)", code)) <= set(table["patterns"])
    assert [name for name in table["patterns"] if not re.search(rf"PATTERNS\.{name}\b|\"{name}\"", code)] == []


NO_SECRETS = [
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
    "const key = process.env.JWT_SECRET!;",
    "{ password: formData.password!, hasToken: !!flag }",
    "flags.PWD = *envFlags.PWD",
    ":root { --pass: #16a34a; --color-pass: rgb(22, 163, 74); }",
    "allowed = ['ls','pwd','python3']",
    "pwd: osc7/osc51",
    "each session identified by input.SessionID, the method identified by `algorithm`",
    "arn:aws:secretsmanager:eu-west-1:123456789012:secret:TideSecret-a1b2c3",
    "All tests pass: `mise run test:ci`",
    "PASSWORD=${DB_PASSWORD} TOKEN=$(cat token.txt) password: string; apiKey: str | None",
    "password=await hash_password(plain)",
    '"OLDPWD": "/home/mara/projects/tide-2/src"',
    "login(mfa_token=mfa_token, privateKeyPassword=pvk_password, apiKey: ctxApiKey)",
    "-----BEGIN CERTIFICATE-----\nMIIDQTCCAimgAwIBADANBgkqhkiG9w0BAQsFADA5MQswCQYDVQQGEwJVUzEPMA0GA1UE",
    '"password": "Contraseña", "confirmPassword": "Confirm", "password": "required|string|min:8"',
    "ROOT_PASSWORD: Represents if there is one. EXPIRED_PASSWORD = Expired",
    "  PASS: http2-upgrade\nif (pass == 'vertex') {",
    "admin:*:read:write:delete file.c:5432:10:20:warning",
    "token = request.headers.get('Authorization', '').removeprefix('Bearer ')",
    "password=%(password)s password=#{password} password=!PASSWORD! ${API_KEY:?required}",
    "mongodb://<username>:<password>@cluster0.example.net",
    "/etc/passwd: root:x:0:0:root:/root:/bin/bash",
    "PASSWORD_RESET_TIMEOUT = 259200 password_encryption = scram-sha-256",
    "expect(screen.getByPassword('mara@example.com')); t('password.reset-2024'); key=R2-2024-WEST-EU1-MAIN",
    "Next page token: CAEQAA9f86d081884c7d65 and TOKEN_NAME=a1b2c3d4e5f6g7h8i9j0",
]


def test_lookalikes_of_secrets_are_left_alone(subtests: pytest.Subtests) -> None:
    for text in NO_SECRETS:
        with subtests.test(text):
            assert found(text) == []


def test_a_finding_has_a_kind_a_position_and_a_stable_fingerprint() -> None:
    key = "ghp_" + "aB3dE5gH7jK9mN1pQ3rS5tU7vW9xY1zA3bC5"
    first, second = redact(f"one {key}, two {key}").findings
    assert (first.kind, first.start, first.end) == ("gh-token", 4, 44)
    assert first.fingerprint == second.fingerprint
    assert re.fullmatch(r"[0-9a-f]{16}", first.fingerprint)
    assert redact(f"<{key}>").text == f"<[redacted:gh-token:{first.fingerprint[:4]}]>"


def test_a_fingerprint_depends_on_the_key() -> None:
    text = "password=S3cr3tP4ss!"
    assert Redactor(key=b"a").find(text)[0].fingerprint != Redactor(key=b"b").find(text)[0].fingerprint


def test_a_private_key_is_replaced_as_a_whole() -> None:
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


def test_personal_data_is_found_on_request() -> None:
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
    with pytest.raises(ConfigError, match="lowercase letters"):
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
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    once = REDACTOR.redact(text).text
    assert REDACTOR.redact(once).text == once


@given(TEXTS)
def test_only_findings_are_replaced(text: str) -> None:
    redacted = REDACTOR.redact(text)
    at, rest = 0, redacted.text
    for finding in redacted.findings:
        assert at <= finding.start < finding.end <= len(text)
        plain = text[at : finding.start]
        assert rest.startswith(plain + finding.replacement)
        assert rules.PATTERNS.replacement.fullmatch(finding.replacement)
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
def test_json_stays_json(value: object, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    json.loads(REDACTOR.redact(text).text)
    nested = json.dumps({"arguments": text}, ensure_ascii=ascii_only)
    json.loads(REDACTOR.redact(nested).text)


@given(TEXTS)
def test_the_same_text_gives_the_same_result(text: str) -> None:
    assert REDACTOR.redact(text) == Redactor(personal=PERSONAL).redact(text)
