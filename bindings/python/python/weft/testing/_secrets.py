"""Secrets and keys in the form in which NVMe hosts take them, in files that others cannot read."""

import base64
import os
import zlib


def _text(head: str, key: bytes) -> str:
    sum_ = zlib.crc32(key).to_bytes(4, "little")
    return f"{head}:{base64.b64encode(key + sum_).decode()}:"


def dhchap() -> str:
    """Return a new secret of DH-HMAC-CHAP."""
    return _text("DHHC-1:00", os.urandom(32))


def psk() -> str:
    """Return a new pre-shared key of TLS."""
    return _text("NVMeTLSkey-1:01", os.urandom(32))


def write(path: str, text: str) -> str:
    """Write a file that only this user can read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text + "\n")
    return path
