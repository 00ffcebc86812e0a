"""RSA signatures that sign in to a provider; beside the store's sealing, the one place that knows the cryptography package."""

from __future__ import annotations

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from backends.errors import CredentialsError


def rs256(pem: str, data: bytes) -> bytes:
    """The RS256 signature (RFC 7518 section 3.3) of `data` by the private key in `pem`.

    Raises:
        CredentialsError: it holds no RSA private key, or one with a password.
    """
    try:
        key = serialization.load_pem_private_key(pem.encode(), None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, rsa.RSAPrivateKey):
        raise CredentialsError("no RSA private key")
    return key.sign(data, padding.PKCS1v15(), hashes.SHA256())
