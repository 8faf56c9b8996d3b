"""Which keys of JSON name somebody or something in particular, and what a value under such a key is called."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from typing import NamedTuple

from warmstart.templates.extraction.listed import listed

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_IDS = listed("id ids uuid guid ref reference token sku iban ssn passport sha oid")
_NUMBERED = listed("number num no nr code")  # identify only with what they are the number of
# What has a number that is its own: a line or a page has one as well.
_OWNED = listed(
    "user customer client member membership account order reservation booking confirmation flight ticket invoice "
    "payment transaction tracking case claim policy passport license licence card credit gift certificate phone mobile "
    "tax employee patient student contract shipment serial item product bank routing coupon voucher subscription group "
    "insurance loan medical record prescription device imei sim vehicle plate meter"
)
_PERSON = listed(
    "first_name last_name full_name middle_name given_name family_name surname forename username user_name login "
    "customer_name passenger_name contact_name cardholder_name account_name display_name owner_name nickname "
    "author_name firstname lastname fullname maiden_name patient_name guest_name recipient_name driver_name "
    "holder_name billing_name shipping_name"
)
# Whom a key names where its value is written like a name.
_SOMEBODY = listed(
    "provider doctor physician patient passenger guest recipient cardholder holder beneficiary driver contact customer "
    "employee assignee manager owner reporter therapist dentist nurse tenant landlord spouse guardian"
)
_ADDRESS = listed(
    "address address_1 address_2 address_line_1 address_line_2 street street_address city town zip zipcode zip_code "
    "postal_code postalcode postcode"
)
_REGION = listed("province state country county region")  # only inside an address
_DATES = listed("date day dob birthday birthdate date_of_birth birth_date")
_MONEY = listed("amount price prices total subtotal cost fee balance refund payment total_price unit_price charge tax")
# What stands beside a `name` that is a person's.
_BESIDE_PERSON = listed(
    "email phone dob birthday first_name last_name address date_of_birth user_id customer_id mobile passport"
)
# Values that say nothing about anybody: roles, services, and the types that a schema names.
_ORDINARY = listed(
    "default admin root me self none null true false user test main all any unknown system anonymous guest example "
    "public private local new old yes no on off auto latest stable dev prod postgres mysql redis git ubuntu node "
    "nobody daemon docker jenkins ci bot app web api server client name string str int integer number text uuid "
    "object array boolean bool id email date required optional value runner vagrant vscode developer workspace "
    "build code work home"
)

_NAME = re.compile(r"(?:(?:Dr|Mr|Mrs|Ms|Prof)\.? )?[A-Z][\w'’-]{1,20}(?: [A-Z]\.)?(?: [A-Z][\w'’-]{1,20}){1,2}")


class Hint(NamedTuple):
    """What a key says about the value under it: the name of its placeholder, and how surely it identifies."""

    type: str
    sure: bool = True
    everywhere: bool = True  # whether the value is looked for in other texts too


@lru_cache(maxsize=8192)
def words_of(key: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in _WORD.findall(key[:80]))


@lru_cache(maxsize=8192)
def hint_of(key: str, parent: str = "") -> Hint | None:
    """What a key says about its value; `None` where it says nothing."""
    words = words_of(key)
    if not words or len(words) > 5:
        return None
    name = "_".join(words)
    if name in _PERSON:
        return Hint(name)
    if name in _ADDRESS or (name in _REGION and "address" in parent):
        return Hint(name.replace("_1", "").replace("_2", ""), everywhere=name not in _REGION or name == "country")
    if words[-2:] in (("last", "four"), ("last", "4")) or name in ("cvv", "cvc", "pin"):
        return Hint("last_four" if words[-2:-1] == ("last",) else name, everywhere=False)
    if words[-1] in _SOMEBODY:
        return Hint("name", sure=False)
    if words[-1] in ("email", "mail") or name == "email_address":
        return Hint("email")
    if words[-1] in ("phone", "mobile", "telephone", "fax") or name in ("phone_number", "mobile_number"):
        return Hint("phone")
    if name in _DATES or words[-1] in ("date", "dob", "birthday"):
        return Hint("dob" if name in ("dob", "birthday", "date_of_birth", "birth_date", "birthdate") else "date")
    return _id_hint(words, name)


def _id_hint(words: tuple[str, ...], name: str) -> Hint | None:
    last = words[-1]
    if last in _IDS:
        owned = len(words) > 1 and not _OWNED.isdisjoint(words)
        return Hint(name.removesuffix("s") if last == "ids" else name, sure=owned)
    if last in _NUMBERED and len(words) > 1 and not _OWNED.isdisjoint(words):
        return Hint(name)
    if name in _OWNED:
        return Hint(f"{name}_id", sure=False)
    # `reservations: ["M05KNL", …]`: a list of what is known by its id.
    single = last.removesuffix("s")
    if last != single and (single in _OWNED):
        return Hint("_".join((*words[:-1], f"{single}_id")), sure=False)
    return None


def is_money(key: str) -> bool:
    """Whether a key names an amount of money."""
    words = words_of(key)
    return bool(words) and words[-1] in _MONEY


def names_person(keys: Collection[str]) -> bool:
    """Whether a `name` among these keys is a person's."""
    return any("_".join(words_of(key)) in _BESIDE_PERSON for key in keys)


def is_ordinary(value: str) -> bool:
    """Whether a value is a word that anybody may use."""
    return value.lower() in _ORDINARY


def identifies(value: str, hint: Hint) -> bool:
    """Whether a value is one of its own and not a word such as `default`."""
    if not 2 <= len(value) <= 120 or is_ordinary(value) or "{{" in value or "\n" in value:
        return False
    digits = sum(map(str.isdigit, value))
    if hint.type in ("date", "dob", "phone"):
        return digits > 0
    if hint.type == "email":
        return "@" in value
    if hint.type == "name" and not hint.sure:
        return _NAME.fullmatch(value) is not None
    if hint.type.startswith(("zip", "post")):
        return digits > 0 and len(value) <= 12
    if hint.type in ("address", "street_address"):
        return " " in value  # not `localhost:8080`
    if hint.sure:
        return len(value) > 2 or not hint.type.endswith(("id", "number", "code"))
    # `mia_li_3668`, `M05KNL`, `UHDAHF`; not `header` or `src/main`.
    if " " in value or "/" in value or len(value) < 5:
        return False
    return digits > 0 or (value.isupper() and value.isalpha())
