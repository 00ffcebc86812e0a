"""What programs started by the guard inherit."""

from __future__ import annotations

import pytest

from backends.environment import without_credentials
from backends.guard.jobs import beginning
from backends.records.job import Job

SECRET = {
    "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_SESSION_TOKEN": "x", "AZURE_STORAGE_ACCOUNT_KEY": "x",
    "AZURE_STORAGE_SAS_KEY": "x", "AZURE_CLIENT_SECRET": "x", "GOOGLE_SERVICE_ACCOUNT": "x", "GOOGLE_APPLICATION_CREDENTIALS": "x",
}  # fmt: skip


def test_credentials_of_every_store_stay_behind() -> None:
    assert without_credentials({**SECRET, "PATH": "/bin", "HOME": "/root"}) == {
        "PATH": "/bin",
        "HOME": "/root",
    }


def test_a_started_job_gets_its_own_and_not_the_guards(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SECRET.items():
        monkeypatch.setenv(name, value)
    job = Job("a", "n", "u" * 20, environment={"AWS_PROFILE": "the-jobs-own"})
    found = beginning._environment(job, 3)
    assert {
        name: value for name, value in found.items() if name.startswith(("AWS", "AZURE", "GOOGLE"))
    } == job.environment
    assert found["REPRIEVE_EPOCH"] == "3"
