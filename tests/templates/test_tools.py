"""The quick check of arguments says what a full validator says."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from warmstart.templates.tools import argument_problem, fits

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from((1.5, "a", "b", "{{a}}")),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=2),
    max_leaves=5,
)
TYPES = ("string", "object", "array", "boolean", "null", "integer", "number")
SCHEMAS = st.recursive(
    st.fixed_dictionaries({}, optional={"type": st.sampled_from(TYPES), "enum": st.just(["a", "b"])}),
    lambda inner: st.fixed_dictionaries(
        {"properties": st.dictionaries(st.sampled_from("xyz"), inner, max_size=2)},
        optional={
            "type": st.sampled_from(TYPES),
            "required": st.lists(st.sampled_from("xyz"), max_size=1),
            "additionalProperties": st.booleans(),
            "items": inner,
            "minItems": st.integers(0, 2),
        },
    ),
    max_leaves=4,
)


@given(SCHEMAS, st.dictionaries(st.sampled_from("xyz"), VALUES, max_size=3))
def test_the_quick_check_agrees_with_a_full_validator(schema: dict[str, Any], arguments: dict[str, Any]) -> None:
    assert fits(schema, arguments) == (argument_problem(schema, json.dumps(arguments)) is None)


def test_without_a_schema_anything_fits() -> None:
    assert fits(None, {"a": 1})
