"""The Python SDK of agent-sandbox, unchanged, against a platform with `up --agent-sandbox`."""
import os

from k8s_agent_sandbox.gke_extensions.snapshots import PodSnapshotSandboxClient
from k8s_agent_sandbox.models import SandboxDirectConnectionConfig

connection = SandboxDirectConnectionConfig(
    api_url=os.environ["ROUTER_URL"],
    extra_headers={"Authorization": "Bearer " + os.environ["ROUTER_TOKEN"]},
)
client = PodSnapshotSandboxClient(connection_config=connection)
sandbox = client.create_sandbox("pool", namespace="default", sandbox_ready_timeout=170)
name = sandbox.sandbox_id

assert sandbox.commands.run("echo 'hello world'").stdout == "hello world\n"
failed = sandbox.commands.run("sh -c 'echo bad >&2; exit 3'")
assert (failed.exit_code, failed.stderr) == (3, "bad\n"), failed
sandbox.files.write("notes/a.txt", b"one")
assert sandbox.files.read("notes/a.txt") == b"one"
assert sandbox.files.exists("notes/a.txt") and not sandbox.files.exists("notes/b.txt")
assert [entry.name for entry in sandbox.files.list("notes")] == ["a.txt"]

# Only memory has it: a process, and a file system in memory.
assert sandbox.commands.run("sh -c 'mkdir -p /run/memory && echo alive > /run/memory/mark'").exit_code == 0
assert sandbox.commands.run("sh -c 'sleep 100000 </dev/null >/dev/null 2>&1 & echo $! > /run/memory/pid'").exit_code == 0

suspended = sandbox.suspend()
assert suspended.success, suspended
assert sandbox.is_suspended()
resumed = sandbox.resume()
assert resumed.success, resumed
assert sandbox.commands.run("cat /run/memory/mark").stdout == "alive\n"
assert sandbox.commands.run("sh -c 'kill -0 $(cat /run/memory/pid)'").exit_code == 0

assert client.get_sandbox(sandbox.claim_name, namespace="default").sandbox_id == name
assert sandbox.claim_name in client.list_all_sandboxes(namespace="default")
client.delete_sandbox(sandbox.claim_name, namespace="default")
print("ok")
