"""Boot program inside the jail: drops rights, sets limits, then runs the given program.

Sent as text to the jailed interpreter, never imported. Its one output byte says that the jail has started,
so that a jail which does not start is never taken for a program that failed.
"""

import os
import resource
import sys

uid, limits, source = int(sys.argv[1]), sys.argv[2], sys.argv[3]
del sys.argv[1:]
if uid:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
for limit in limits.split(","):
    name, most = limit.split("=")
    resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (int(most), int(most)))
os.write(1, b"\0")
exec(compile(source, "<program>", "exec"), {"__name__": "__main__"})
