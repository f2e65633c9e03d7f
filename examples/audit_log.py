"""Log every verdict as a line of JSON, from inside an application or as a plugin of its own.

python examples/audit_log.py PHOTO

Needs the watermark's weights and a key once: coverlock fetch steganogan; coverlock keygen key.json
"""

import json
import sys
from datetime import datetime, timezone

from coverlock_sdk import hookimpl, wrap
from coverlock_sdk.plugin_manager import plugin_manager


class AuditLog:
    """In a package, this would be a module in the entry-point group `coverlock.listeners`."""

    @hookimpl
    def verdict_reached(self, verdict, watermark, hash, source):
        time = datetime.now(timezone.utc).isoformat(timespec="seconds")
        line = {"time": time, "source": source, "watermark": watermark, "hash": hash}
        print(json.dumps({**line, **verdict.to_dict()}))


plugin_manager().add("audit-log", AuditLog())
wrap("steganogan", key="key.json").verify(sys.argv[1], "order-4711")
