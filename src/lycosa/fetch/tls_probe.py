"""Whether a server speaks TLS: decides about seeds that were typed without a scheme."""

from __future__ import annotations

import socket
import ssl
from urllib.parse import urlsplit

HTTPS_PORT = 443
TIMEOUT_S = 5.0


def speaks_tls(authority: str, timeout_s: float = TIMEOUT_S) -> bool:
    """Try a TLS handshake with `host`, `host:port` or what begins with it; nothing is requested.
    Whether the certificate is valid is no question here: the crawl says so. Never raises.
    """
    try:
        parts = urlsplit(f"//{authority}")
        host, port = parts.hostname, parts.port
        if host is None:
            return False
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = socket.create_connection((host, port or HTTPS_PORT), timeout_s)
        with connection, context.wrap_socket(connection, server_hostname=host):
            return True
    except (OSError, ValueError):
        return False
