from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.profile.talks import asked, did, talk
from warmstart.redact.redactor import Redactor
from warmstart.sessions.values import Message, Session
from warmstart.templates.extraction.placeholders import Placeholders
from warmstart.templates.extraction.walk import walk
from warmstart.text.truncate import truncate

SESSION = Session(agent="openai", native_id="s1", project="/home/mira/shop")
MIA: dict[str, Any] = {
    "name": {"first_name": "Mia", "last_name": "Li"},
    "address": {
        "address1": "975 Sunset Drive",
        "address2": "Suite 217",
        "city": "Austin",
        "country": "USA",
        "province": "TX",
        "zip": "78750",
    },
    "email": "mia.li3818@example.com",
    "dob": "1990-04-05",
    "payment_methods": {"credit_card_4421486": {"brand": "visa", "last_four": "7447", "id": "credit_card_4421486"}},
    "saved_passengers": [{"first_name": "Amelia", "last_name": "Ahmed", "dob": "1957-03-21"}],
    "membership": "gold",
    "reservations": ["NO6JO3", "UHDAHF"],
}


def places(*parts: list[Message], **options: Any) -> Placeholders:
    return Placeholders(walk(SESSION, talk(*parts)), **options)


def of_mia(**options: Any) -> Placeholders:
    return places(
        asked("Hi, I am Mia Li."), did("get_user", {"user_id": "mia_li_3668"}, "ok", json.dumps(MIA)), **options
    )


def flat(value: object) -> list[str]:
    if isinstance(value, dict):
        return [*value, *(text for part in value.values() for text in flat(part))]
    return [text for part in value for text in flat(part)] if isinstance(value, list) else [str(value)]


def test_values_are_known_by_their_form(subtests) -> None:
    cases = [
        ("write to mia.li@example.com now", "write to {{email}} now"),
        ("call +1 415 555 0132", "call {{phone}}"),
        ("call (415) 555-0132", "call {{phone}}"),
        ("run 3f2b8c1e-1a2b-4c3d-8e9f-0a1b2c3d4e5f", "run {{uuid}}"),
        ("at commit 1a2b3c4", "at commit {{hash}}"),
        ("on 2024-05-23", "on {{date}}"),
        ("on May 23, 2024 or May 24", "on {{date}} or {{date_2}}"),
        ("since 2024-05-15T15:00:00Z", "since {{datetime}}"),
        ("leaves at 14:30", "leaves at {{time}}"),
        ("it costs $1,207.50", "it costs {{amount}}"),
        ("ticket 123456789", "ticket {{number}}"),
        ("order #W5918442", "order {{order_id}}"),
        ("pay with gift_card_8887175", "pay with {{gift_card_id}}"),
        ("in /Users/alice/shop/src", "in /Users/{{user}}/shop/src"),
        ("in /home/mira/shop/src/a.py", "in {{project}}/src/a.py"),
        ("see https://example.org/orders/1234567?token=abcdef123", "see {{url}}"),
        ("see http://localhost:8000/orders/1234567", "see http://localhost:8000/orders/{{id}}"),
        ("from 192.168.10.4", "from {{ip}}"),
    ]
    for text, shown in cases:
        with subtests.test(text=text, shown=shown):
            assert places().text(text) == shown


def test_conventions_stay_as_they_are(subtests) -> None:
    cases = [
        "python -m pytest -q --maxfail=1 tests/test_cart.py",
        "src/app.py:12:30: E501 line too long",
        "4 passed, 1 skipped in 0.12s",
        "npm run build -- --mode production",
        "version 1.22.3 of utf-8 on port 8080",
        "git log --oneline -5 main..feature",
        "economy, one_way, credit_card, ATL to PHL",
        "bad, decade and facade are words",
        "sed -n '1,220p' docs/adr/0013-use-rows.md",
        "listen on 127.0.0.1 or 0.0.0.0",
        "{{date}} and {{user_id_2}}",
        "[redacted:github-token:ab12]",
        "http://localhost:3000/health",
    ]
    for text in cases:
        with subtests.test(text=text):
            assert places().text(text) == text


def test_the_same_value_has_the_same_placeholder_everywhere() -> None:
    known = of_mia()
    assert known.arguments("get_user", '{"user_id": "mia_li_3668"}') == '{"user_id": "{{user_id}}"}'
    assert known.text("Her id is mia_li_3668, not raj_kim_1200.") == "Her id is {{user_id}}, not raj_kim_1200."
    assert known.text("NO6JO3, then UHDAHF, then NO6JO3") == (
        "{{reservation_id}}, then {{reservation_id_2}}, then {{reservation_id}}"
    )


def test_what_json_names_is_replaced_in_every_text_of_the_session() -> None:
    known = of_mia()
    told = known.text(
        "Mia Li (MIA, born 1990-04-05) lives at 975 Sunset Drive, Suite 217 in Austin, 78750 USA and pays with "
        "credit_card_4421486; Amelia Ahmed flies with her. Minimum 3 bags."
    )
    for value in ("Mia", "Li ", "MIA", "1990", "Sunset", "Suite", "Austin", "78750", "4421486", "Amelia", "Ahmed"):
        assert value not in told
    assert "Minimum 3 bags." in told


def test_a_result_shows_its_keys_and_nobody_s_values() -> None:
    shown = of_mia().data(MIA)
    assert isinstance(shown, dict)
    assert shown["membership"] == "gold"
    assert shown["name"] == "{{name}}"
    assert shown["address"] == "{{address}}"
    kept = set(flat(shown))
    for value in flat(MIA):
        assert value not in kept or value in MIA or value in ("gold", "visa", "brand", "last_four", "id", *_KEYS), value


_KEYS = ("first_name", "last_name", "dob")


def test_amounts_in_results_are_placeholders() -> None:
    assert places().data({"price": 1936, "prices": {"economy": 105}, "seats": 3, "count": 12345678}) == {
        "price": "{{amount}}",
        "prices": {"economy": "{{amount}}"},
        "seats": 3,
        "count": "{{number}}",
    }


def test_small_numbers_of_arguments_stay_and_long_ones_keep_their_type() -> None:
    given = {
        "limit": 5,
        "timeout": 600000,
        "account_number": 123456789,
        "since": 1715785200000,
        "ratio": 0.5,
        "all": True,
    }
    assert json.loads(places().arguments("list", json.dumps(given))) == {
        **given,
        "account_number": 0,
        "since": 0,
    }


def test_a_placeholder_never_breaks_the_schema() -> None:
    schema = {
        "type": "object",
        "properties": {
            "user_id": {"type": "string", "enum": ["mia_li_3668"]},
            "date": {"type": "string", "format": "date"},
            "email": {"type": "string", "format": "email"},
            "code": {"type": "string", "pattern": "^[A-Z0-9]{6}$"},
            "order_id": {"type": "string", "pattern": r"^#W\d{7}$"},
            "account_number": {"type": "integer", "minimum": 10},
            "zip": {"type": "string", "maxLength": 5},
            "tags": {"type": "array", "items": {"type": "string", "enum": ["2024-05-01"]}},
            "when": {"anyOf": [{"type": "null"}, {"type": "string", "format": "date-time"}]},
            "link": {"$ref": "#/$defs/link"},
        },
        "$defs": {"link": {"type": "string", "format": "uri"}},
    }
    given = {
        "user_id": "mia_li_3668",
        "date": "2024-05-23",
        "email": "mia@example.com",
        "reservation_code": "NO6JO3",
        "code": "NO6JO3",
        "order_id": "#W5918442",
        "account_number": 123456789,
        "zip": "78750",
        "tags": ["2024-05-01"],
        "when": "2024-05-15T15:00:00Z",
        "link": "https://example.org/orders/1234567",
    }
    known = places(did("f", given), schemas={"f": schema})
    shown = json.loads(known.arguments("f", json.dumps(given)))
    assert shown == {
        "user_id": "mia_li_3668",
        "date": "2000-01-01",
        "email": "name@example.com",
        "reservation_code": "{{reservation_code}}",
        "code": "XX0XX0",
        "order_id": "#W0000000",
        "account_number": 10,
        "zip": "00000",
        "tags": ["2024-05-01"],
        "when": "2000-01-01T00:00:00Z",
        "link": "https://example.com/",
    }


def test_arguments_that_nothing_can_stand_for_are_empty() -> None:
    schema = {"properties": {"user_id": {"type": "string", "pattern": "^mia_li$"}}}
    known = places(did("f", {"user_id": "mia_li"}), schemas={"f": schema})
    assert known.arguments("f", '{"user_id": "mia_li"}') == ""


def test_words_that_anybody_may_use_name_nobody(subtests) -> None:
    cases = [
        {"user_id": "default"},
        {"session_id": "main", "id": "header", "element_id": "sidebar-left"},
        {"username": "postgres", "address": "localhost:8080"},
        {"user_id": "string", "email": "string", "date": "date", "zip": "docs.zip"},
        {"name": "build", "version": "1.2.3"},
        {"line_number": "120", "status_code": "404"},
    ]
    for arguments in cases:
        with subtests.test(arguments=arguments):
            known = places(did("f", arguments))
            assert json.loads(known.arguments("f", json.dumps(arguments))) == arguments
            for value in arguments.values():
                assert known.text(f"run {value} again") == f"run {value} again"


def test_secrets_go_with_and_without_placeholders() -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"[:36]
    for enabled in (True, False):
        known = places(enabled=enabled, redactor=Redactor())
        assert token not in known.text(f"token {token}")
        assert token not in known.arguments("f", json.dumps({"key": token}))
    assert places(enabled=False).text("on 2024-05-23 by mia@example.com") == "on 2024-05-23 by mia@example.com"


def test_plain_text_arguments_become_json() -> None:
    assert json.loads(places().arguments("apply_patch", "*** Begin Patch\n+x")) == {"input": "*** Begin Patch\n+x"}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from(["user_id", "date", "command", "name", "n", "path"]), json_values, max_size=4))
def test_arguments_stay_json_of_the_same_types(given_values: dict[str, Any]) -> None:
    shown = json.loads(places(did("f", given_values)).arguments("f", json.dumps(given_values)))
    assert {key: type(value) for key, value in shown.items()} == {
        key: type(value) for key, value in json.loads(json.dumps(given_values)).items()
    }


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="ab {}_\n😀é", max_size=200), st.integers(10, 120))
def test_a_cut_text_is_never_longer_and_cuts_no_placeholder(text: str, most: int) -> None:
    whole = f"{text}{{{{user_id}}}}{text}"
    shown = truncate(whole, most)
    assert len(shown) <= most
    shown.encode()
    assert len(re.findall(r"\{\{user_id", shown)) == len(re.findall(r"\{\{user_id\}\}", shown))


def test_an_address_is_carried_if_the_person_named_its_host() -> None:
    named = places(asked("Look at https://www.example.org/ first."))
    assert named.text("see https://example.org/a?token=abcdef123") == "see https://example.org/a?token={{value}}"
    assert named.text("see https://other.example/a") == "see {{url}}"


def test_a_mail_address_stays_whole_where_a_name_is_part_of_it() -> None:
    known = places(
        asked("Hello, this is Margaret O'Neill."), did("find", {"patient_name": "Margaret O'Neill"}, "ok", "found")
    )
    assert known.text("Sent to margaret.oneill@mail.example") == "Sent to {{email}}"


def test_whom_a_key_or_a_title_names_is_a_placeholder() -> None:
    result = {
        "provider": "Dr. Anika Patel",
        "insurance": {"group_no": "GRP-7781", "payer": "Aetna"},
        "card": {"account_number_last_4": "1234"},
    }
    known = places(asked("Move my appointment with Dr. Patel"), did("get", {}, "ok", json.dumps(result)))
    shown = json.dumps(known.data(result)) + known.text("Dr. Patel takes the card ending in 1234")
    assert not [value for value in ("Patel", "Anika", "GRP-7781", "1234") if value in shown]
    assert "Aetna" in shown


def test_values_that_a_schema_wants_in_a_form_stay_different() -> None:
    schema = {
        "type": "object",
        "properties": {
            "order_ids": {"type": "array", "uniqueItems": True, "items": {"type": "string", "pattern": r"^#W\d{7}$"}},
            "dob": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\d$"},
            "account": {"type": "integer", "minimum": 1000},
        },
    }
    given = json.dumps({"order_ids": ["#W1234567", "#W7654321"], "dob": "1957-03-21", "account": 123456789})
    shown = json.loads(places(asked("Return both."), schemas={"give_back": schema}).arguments("give_back", given))
    assert shown == {"order_ids": ["#W0000000", "#W0000002"], "dob": "2000-01-01", "account": 1000}
