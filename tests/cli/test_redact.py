from __future__ import annotations

import json
import stat
import subprocess
import zlib

SECRET = "xK9mP2vL5nQ8wR3tY6"
TEXT = f"# settings\nDB_PASSWORD={SECRET}\nDEBUG=1\n"


def test_a_file_is_printed_without_its_secrets(run, tmp_path):
    file = tmp_path / "a.env"
    file.write_text(TEXT)
    ran = run("redact", file)
    assert (ran.code, ran.err) == (0, "")
    assert SECRET not in ran.out
    assert ran.out.startswith("# settings\nDB_PASSWORD=[redacted:password:")
    assert ran.out.endswith("]\nDEBUG=1\n")
    assert file.read_text() == TEXT


def test_standard_input_is_read_and_other_bytes_pass_through(program, home):
    data = TEXT.encode() + b"\xff\xfe\r\n\0 end"
    done = subprocess.run([*program, "redact"], input=data, capture_output=True, check=True)
    assert SECRET.encode() not in done.stdout
    assert done.stdout.endswith(b"\xff\xfe\r\n\0 end")


def test_json_has_kind_and_position(run, tmp_path):
    file = tmp_path / "a.env"
    file.write_text(TEXT)
    (finding,) = json.loads(run("redact", file, "--json").out)
    assert finding == {"kind": "password", "start": TEXT.index(SECRET), "end": TEXT.index(SECRET) + len(SECRET)}


def test_check_fails_when_there_is_a_secret(run, tmp_path):
    file = tmp_path / "a.env"
    file.write_text(TEXT)
    ran = run("redact", "--check", file)
    assert (ran.code, ran.out, ran.err) == (1, "", "1 secret: password\n")
    file.write_text("nothing here\n")
    assert run("redact", "--check", file) == (0, "", "")


def test_the_same_secret_is_known_again_and_the_key_is_private(run, tmp_path, home):
    file = tmp_path / "a.env"
    file.write_text(TEXT)
    assert run("redact", file).out == run("redact", file).out
    key = home / ".warmstart" / "redact.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    first = run("redact", file).out
    key.unlink()
    assert run("redact", file).out != first


def test_rules_of_the_user_count(run, tmp_path, home):
    (home / ".warmstart").mkdir()
    config = home / ".warmstart" / "config.toml"
    config.write_text(f'[redact]\nallow = ["{SECRET}"]\n[redact.patterns]\nacme = "acme_[0-9]{{4}}"\n')
    file = tmp_path / "a.txt"
    file.write_text(TEXT + "acme_1234\n")
    out = run("redact", file).out
    assert SECRET in out
    assert "acme_1234" not in out
    config.write_text('[redact.patterns]\nacme = "["\n')
    ran = run("redact", file)
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert "not a regular expression" in ran.err


def test_personal_data_is_replaced_on_request(run, tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("mara@example.com in /home/mara/x\n")
    assert run("redact", file).out == "mara@example.com in /home/mara/x\n"
    assert "mara" not in run("redact", "--personal", file).out


def chat(tmp_path):
    path = tmp_path / "chat.json"
    call = {"id": "c1", "function": {"name": "bash", "arguments": json.dumps({"command": f"PASSWORD={SECRET} make"})}}
    path.write_text(
        json.dumps(
            [
                {"role": "user", "content": f"the password: {SECRET} is secret, call mara@example.com"},
                {"role": "assistant", "content": "", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c1", "content": TEXT},
            ]
        )
    )
    return path


def stored(home) -> bytes:
    return b"".join(path.read_bytes() for path in (home / ".warmstart").glob("warmstart.db*"))


def test_sync_stores_no_secret(run, tmp_path, home):
    assert run("sync", "--path", chat(tmp_path)).code == 0
    assert SECRET.encode() not in stored(home)
    assert b"mara@example.com" in stored(home)
    out = run("sessions", "export", "chat", "--format", "markdown").out
    assert "mara@example.com" not in out
    assert "mara@example.com" in run("sessions", "export", "chat", "--format", "markdown", "--keep-personal").out


def test_the_store_can_be_redacted_later(run, tmp_path, home):
    ran = run("sync", "--path", chat(tmp_path), "--no-redact")
    assert ran.code == 0
    assert "Warning" in ran.err
    assert SECRET.encode() in stored(home)
    assert run("redact", "--store").out == "Replaced secrets in 3 texts.\n"
    assert SECRET.encode() not in stored(home)
    assert SECRET.lower().encode() not in stored(home)
    assert json.loads(run("redact", "--store", "--json").out) == {"changed": 0}
    messages = json.loads(run("sessions", "show", "chat", "--json").out)["messages"]
    assert "[redacted:password:" in messages[0]["text"]
    assert "[redacted:password:" in messages[2]["tool_results"][0]["text"]
    assert run("redact", "--store", "--check").code == 2


def test_a_secret_in_a_compressed_text_can_be_redacted_later(run, tmp_path, home):
    log = tmp_path / "chat.json"
    text = f"{'The surge was late. ' * 100}{TEXT}"
    log.write_text(json.dumps({"id": "chat", "messages": [{"role": "user", "content": text}]}))
    assert run("sync", "--path", log, "--no-redact").code == 0
    assert zlib.compress(text.encode(), 1) in stored(home)
    assert run("redact", "--store").out == "Replaced secrets in 1 text.\n"
    assert zlib.compress(text.encode(), 1)[-50:] not in stored(home)
    out = run("sessions", "show", "chat", "--json").out
    assert SECRET not in out
    assert "DB_PASSWORD=[redacted:password:" in out


def test_names_in_the_store_can_be_redacted_later_and_a_word_on_the_outcome_is_at_once(run, tmp_path, home):
    key = f"ghp_{'aB3dE6gH9jK2' * 3}"
    log = tmp_path / key / "chat.json"
    log.parent.mkdir()
    called = [{"id": f"call_{key}", "function": {"name": f"run_{key}", "arguments": "{}"}}]
    said = [{"role": "user", "content": "go"}, {"role": "assistant", "model": f"m-{key}", "tool_calls": called}]
    log.write_text(json.dumps({"id": f"chat-{key}", "messages": said}))
    assert run("sync", "--path", log, "--no-redact").code == 0
    assert key.encode() in stored(home)
    assert run("redact", "--store").code == 0
    assert run("sessions", "outcome", "chat", "success", "--because", f"{key} works").code == 0
    assert key.lower().encode() not in stored(home).lower()
    log.touch()
    assert json.loads(run("sync", "--path", log, "--json").out)["agents"][0]["messages"] == 0


def test_a_missing_file_is_one_line(run, tmp_path):
    ran = run("redact", tmp_path / "none")
    assert ran.code == 2
    assert "none" in ran.err
