"""URLs signed in advance on S3: a process without credentials creates, and neither overwrites nor deletes.

A plain signed URL for PUT may be used again to overwrite. One whose signature covers `If-None-Match` may not: without
the header the signature is wrong, with it the condition holds.
"""

from __future__ import annotations

import pytest

from tests.support.objects import S3Server
from tests.support.presigned import presign, send

pytestmark = pytest.mark.stores
REFUSED = {400, 401, 403}


def test_a_signed_condition_makes_a_url_create_only(s3: S3Server) -> None:
    create = presign(s3, "PUT", "presigned/pack", if_none_match="*")
    assert send(create, b"first")[0] == 200
    assert send(create, b"second")[0] == 412, "used again"
    assert send(create, b"third", bare=True)[0] in REFUSED, "without the condition"
    assert send(create, b"", method="DELETE")[0] in REFUSED
    assert send(presign(s3, "GET", "presigned/pack")) == (200, b"first")


def test_a_plain_signed_url_overwrites(s3: S3Server) -> None:
    """Why the condition must be part of what is signed."""
    plain = presign(s3, "PUT", "presigned/plain")
    assert [send(plain, body)[0] for body in (b"first", b"second")] == [200, 200]
    assert send(presign(s3, "GET", "presigned/plain"))[1] == b"second"


def test_one_url_opens_one_object_and_no_longer_than_said(s3: S3Server) -> None:
    create = presign(s3, "PUT", "presigned/one", if_none_match="*")
    other = type(create)(create.method, create.url.replace("presigned/one", "presigned/two"), create.headers)
    assert send(other, b"x")[0] in REFUSED
    stale = presign(s3, "PUT", "presigned/one", seconds=-1, if_none_match="*")
    assert send(stale, b"x")[0] in REFUSED
    assert send(create, b"x")[0] == 200
