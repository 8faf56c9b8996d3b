from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from warmstart.redact.redactor import Redactor
from warmstart.sessions.redaction import redacted_message, redacted_messages
from warmstart.sessions.values import Message, ToolCall, ToolResult

REDACTOR = Redactor()
SECRET = "xK9mP2vL5nQ8wR3tY6"

TEXTS = st.lists(
    st.sampled_from(
        [
            *("password=", f"DB_PASSWORD={SECRET}", '"token": "', SECRET, "curl -u ", "mara:9fKq2xLz", "\n", " ", "é"),
            *("-----BEGIN PRIVATE KEY-----\n", "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQDndJt7NaG8T64x\n"),
            *(
                "-----END PRIVATE KEY-----",
                "plain words",
                'token", "',
                "https://mara:9fKq2xLz@example.com",
                "x" * 30_000,
            ),
        ]
    ),
    max_size=5,
).map("".join)


@st.composite
def messages(draw: st.DrawFn) -> list[Message]:
    drawn = draw(st.lists(st.tuples(TEXTS, TEXTS, TEXTS, TEXTS), max_size=6))
    return [
        Message(
            native_id=str(number),
            role="assistant",
            text=text,
            reasoning=reasoning,
            tool_calls=(ToolCall(id="c", name="bash", arguments=arguments),),
            tool_results=(ToolResult(call_id="c", outcome="ok", text=result),),
        )
        for number, (text, reasoning, arguments, result) in enumerate(drawn)
    ]


@given(messages())
def test_redacting_a_batch_equals_redacting_each(drawn: list[Message]) -> None:
    assert list(redacted_messages(drawn, REDACTOR)) == [redacted_message(message, REDACTOR) for message in drawn]


def test_one_secret_among_many_messages_is_found_and_nothing_else_is_touched() -> None:
    plain = [Message(native_id=str(number), role="user", text=f"message {number} " * 50) for number in range(500)]
    spoken = [*plain[:250], Message(native_id="x", role="user", text=f"DB_PASSWORD={SECRET}"), *plain[250:]]
    found = list(redacted_messages(spoken, REDACTOR))
    assert SECRET not in found[250].text
    assert [*found[:250], *found[251:]] == plain
