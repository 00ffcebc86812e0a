"""URLs of object stores: what is read, what is refused, and that no secret is repeated."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.errors import ReprieveError, UsageError
from backends.store.objects.address import Address, parse
from backends.store.open import open_store


def test_the_three_kinds() -> None:
    assert parse("s3://bucket") == Address("s3", "bucket")
    assert parse("s3://bucket/a/b/?region=eu-west-1&endpoint=https://s3.example.org:9000") == Address(
        "s3", "bucket", "a/b", "eu-west-1", "https://s3.example.org:9000"
    )
    assert parse("gs://some_bucket/fleet") == Address("gs", "some_bucket", "fleet")
    assert parse("az://box/fleet?account=acct") == Address("az", "box", "fleet", account="acct")
    assert parse("s3://bucket?addressing=virtual").addressing == "virtual"


@pytest.mark.parametrize(
    "url",
    [
        "s3://", "s3:///x", "s3://b", "s3://Bucket", "s3://bucket/../x", "s3://bucket/a b", "s3://bucket/a//b",
        "s3://bucket#x", "s3://bucket?region=", "s3://bucket?region=a&region=b", "s3://bucket?nonsense=1",
        "s3://bucket?endpoint=ftp://x", "s3://bucket?endpoint=https://", "s3://bucket?endpoint=https://h?x",
        "s3://bucket?endpoint=https://h:port", "s3://bucket?addressing=odd", "s3://bucket?account=acct",
        "gs://bucket?region=eu", "az://box?region=eu", "az://b--x/y", "az://box?account=A", "ftp://bucket/x",
        "s3://bucket/.tmp-x", "s3://bucket?endpoint=https://h/%20",
    ],
)  # fmt: skip
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        open_store(url)


@pytest.mark.parametrize(
    "url",
    [
        "s3://AKIA:hunter2@bucket/x",
        "s3://bucket?secret_access_key=hunter2",
        "s3://bucket?endpoint=https://me:hunter2@host",
        "az://box?sas=hunter2",
        "gs://bucket?token=hunter2",
        "s3://bucket?endpoint=https%3A//me%3Ahunter2%40host",
    ],
)
def test_credentials_are_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(UsageError) as refused:
        open_store(url)
    assert "hunter2" not in str(refused.value.document())


def test_plain_http_is_for_this_machine_or_by_word() -> None:
    for host in ("127.0.0.1:1", "localhost:9000"):
        assert parse(f"s3://bucket?endpoint=http://{host}").plain_http
    with pytest.raises(UsageError, match="endpoint is http"):
        parse("s3://bucket?endpoint=http://10.0.0.5:9000")
    address = parse("s3://bucket?endpoint=http://10.0.0.5:9000&allow_http=yes")
    assert address.plain_http
    assert parse(address.url) == address


PART = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,8}", fullmatch=True)


@given(
    st.lists(PART, max_size=3),
    st.none() | st.from_regex(r"[a-z]{2}-[a-z]{4}-[0-9]", fullmatch=True),
    st.none() | st.from_regex(r"https://[a-z]{1,8}(\.[a-z]{2,5})?(:[1-9][0-9]{1,3})?", fullmatch=True),
    st.sampled_from(["path", "virtual"]),
)
def test_an_address_is_read_back_from_its_url(
    parts: list[str], region: str | None, endpoint: str | None, addressing: str
) -> None:
    url = f"s3://bucket/{'/'.join(parts)}?addressing={addressing}"
    url += "" if region is None else f"&region={region}"
    url += "" if endpoint is None else f"&endpoint={endpoint}"
    address = parse(url)
    assert (address.prefix, address.region, address.endpoint) == ("/".join(parts), region, endpoint)
    assert parse(address.url) == address


@given(st.text(max_size=60))
def test_any_text_is_an_address_or_refused(text: str) -> None:
    for scheme in ("s3", "gs", "az"):
        try:
            found = parse(f"{scheme}://{text}")
        except ReprieveError as error:
            assert "\n" not in error.message
        else:
            assert parse(found.url) == found


def test_obstore_is_loaded_by_the_first_request_only() -> None:
    code = (
        "import sys\n"
        "from backends.store.open import open_store\n"
        "open_store('file:///tmp/x').list('jobs/')\n"
        "open_store('s3://bucket/x')\n"
        "assert not [name for name in sys.modules if name.partition('.')[0] == 'obstore'], 'loaded'\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
