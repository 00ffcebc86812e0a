"""Making obstore's clients: the only module that names obstore, loaded with the first use of an object store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, S3Store

from backends.store.objects import awsfiles
from backends.store.objects.address import Address

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

Client = S3Store | GCSStore | AzureStore
# What obstore raises: its own tree, and a few of Python's.
FAILURES: tuple[type[Exception], ...] = (BaseError, OSError, ValueError, RuntimeError)
CONNECT_S = 5.0


def connect(
    address: Address,
    timeout_s: float,
    *,
    environment: Mapping[str, str] = os.environ,
    home: Path | None = None,
) -> Client:
    """A client whose single requests end within `timeout_s`; nothing is sent yet.

    obstore's own retries are off: a repeated create must be told from a first one (see `store`).

    Raises:
        CredentialsError: AWS's files name keys that cannot be had. FAILURES: the settings do not fit together.
    """
    options: ClientConfig = {
        "timeout": timedelta(seconds=timeout_s),
        "connect_timeout": timedelta(seconds=min(CONNECT_S, timeout_s)),
        "allow_http": address.plain_http,
        "user_agent": "reprieve",
    }
    retries: RetryConfig = {"max_retries": 0, "retry_timeout": timedelta(seconds=timeout_s)}
    common: dict[str, Any] = {
        "prefix": address.prefix or None,
        "client_options": options,
        "retry_config": retries,
    }
    if address.scheme == "gs":
        if address.endpoint is not None:
            common["base_url"] = address.endpoint
        return GCSStore(address.bucket, **common)
    if address.endpoint is not None:
        common["endpoint"] = address.endpoint
    if address.scheme == "az":
        if address.account is not None:
            common["account_name"] = address.account
        return AzureStore(address.bucket, **common)
    common |= awsfiles.settings(environment, home or Path.home())
    if address.region is not None:
        common["region"] = address.region
    return S3Store(
        address.bucket,
        virtual_hosted_style_request=address.addressing == "virtual",
        conditional_put="etag",  # whatever the environment says
        disable_bulk_delete=True,  # a refused delete is then an error of its own
        **common,
    )
