"""Which keys and region AWS's own files give, and which they cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.errors import CredentialsError
from backends.store.objects.awsfiles import settings

KEYS = "[default]\naws_access_key_id = AK1\naws_secret_access_key = se%cret\n[other]\naws_access_key_id=AK2\naws_secret_access_key=s2\naws_session_token=t2\n"
CONFIG = "[default]\nregion = eu-west-1\n[profile other]\nregion = eu-north-1\n[profile login]\nsso_session = us\n[profile proc]\ncredential_process = /bin/x\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(KEYS)
    (tmp_path / ".aws" / "config").write_text(CONFIG)
    return tmp_path


def test_the_default_profile(home: Path) -> None:
    assert settings({}, home) == {
        "access_key_id": "AK1",
        "secret_access_key": "se%cret",
        "region": "eu-west-1",
    }


def test_a_named_profile_with_a_session(home: Path) -> None:
    assert settings({"AWS_PROFILE": "other"}, home) == {
        "access_key_id": "AK2", "secret_access_key": "s2", "session_token": "t2", "region": "eu-north-1"
    }  # fmt: skip


def test_the_environment_goes_first(home: Path) -> None:
    assert settings({"AWS_ACCESS_KEY_ID": "X", "AWS_REGION": "r"}, home) == {}
    assert settings({"AWS_WEB_IDENTITY_TOKEN_FILE": "/x", "AWS_DEFAULT_REGION": "r"}, home) == {}


def test_no_files_no_settings(tmp_path: Path) -> None:
    assert settings({}, tmp_path) == {}
    moved = tmp_path / "elsewhere"
    moved.write_text(KEYS)
    assert settings({"AWS_SHARED_CREDENTIALS_FILE": str(moved)}, tmp_path)["access_key_id"] == "AK1"


@pytest.mark.parametrize(
    ("profile", "words"),
    [("login", "sso_session"), ("proc", "credential_process"), ("nobody", "neither of AWS's files")],
)
def test_what_cannot_be_had_is_said(home: Path, profile: str, words: str) -> None:
    with pytest.raises(CredentialsError, match=words) as refused:
        settings({"AWS_PROFILE": profile}, home)
    assert "export-credentials" in (refused.value.hint or "")


@pytest.mark.parametrize("content", [b"no section\n", b"\xff\xfe\n", b"[default\n", b"x" * ((1 << 20) + 1)])
def test_a_broken_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_bytes(content)
    with pytest.raises(CredentialsError, match="credentials") as refused:
        settings({}, tmp_path)
    assert "\n" not in refused.value.message
