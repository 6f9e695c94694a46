"""The Python SDK of agent-sandbox (k8s-agent-sandbox), unchanged. The environment names the platform; an argument `full` asks for all of it."""

import io
import os
import sys
import time

from k8s_agent_sandbox.exceptions import SandboxNotFoundError
from k8s_agent_sandbox.gke_extensions.snapshots import PodSnapshotSandboxClient
from k8s_agent_sandbox.models import SandboxDirectConnectionConfig
from kubernetes import client as kubernetes

POOL = os.environ["POOL"]
SLOW = 240  # seconds; machines are emulated on some hosts

connection = SandboxDirectConnectionConfig(
    api_url=os.environ["ROUTER_URL"],
    extra_headers={"Authorization": f"Bearer {os.environ['ROUTER_TOKEN']}"},
)
client = PodSnapshotSandboxClient(connection_config=connection)
core = client.k8s_helper.core_v1_api


def run(sandbox, command: str, exit_code: int = 0) -> str:
    ran = sandbox.commands.run(command, timeout=SLOW)
    assert ran.exit_code == exit_code, ran
    return ran.stdout


def node_of(sandbox) -> str:
    return core.read_namespaced_pod(sandbox.get_pod_name(), "default").spec.node_name


def cordon(node: str, wanted: bool) -> None:
    core.patch_node(node, {"spec": {"unschedulable": wanted}})


def remember(sandbox, value: str) -> None:
    """In a file system that only the machine's memory holds, and in a process that has it in a variable."""
    run(sandbox, f"sh -c 'grep -q \" /dev/shm tmpfs \" /proc/mounts && echo {value} > /dev/shm/value'")
    script = f"value={value}; trap \"echo \\$value > /dev/shm/answer\" USR1; while :; do sleep 0.1; done"
    run(sandbox, f"sh -c '({script}) >/dev/null 2>&1 & echo $! > /dev/shm/pid'")


def remembered(sandbox) -> tuple[str, str]:
    ask = "rm -f /dev/shm/answer; kill -USR1 $(cat /dev/shm/pid); while ! [ -s /dev/shm/answer ]; do sleep 0.1; done"
    run(sandbox, f"sh -c '{ask}'")
    return tuple(run(sandbox, f"cat /dev/shm/{name}").strip() for name in ("value", "answer"))


def suspend(sandbox) -> None:
    suspended = sandbox.suspend(wait_timeout=SLOW)
    assert suspended.success, suspended
    assert sandbox.is_suspended()


def resume_elsewhere(sandbox) -> None:
    before = node_of(sandbox)
    suspend(sandbox)
    cordon(before, True)
    try:
        resumed = sandbox.resume(wait_timeout=SLOW)
    finally:
        cordon(before, False)
    assert resumed.success and resumed.restored_from_snapshot, resumed
    assert node_of(sandbox) != before, "woken where it was"


def wait_until(what: str, holds) -> None:
    end = time.monotonic() + SLOW
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.5)


def is_gone(name: str) -> bool:
    try:
        core.read_namespaced_pod(name, "default")
        return False
    except kubernetes.ApiException as error:
        assert error.status == 404, error
        return True


def short() -> None:
    sandbox = client.create_sandbox(POOL, sandbox_ready_timeout=SLOW)
    assert sandbox.claim_name in client.list_all_sandboxes()
    assert run(sandbox, "uname -s") == "Linux\n"
    sandbox.files.write("notes/one.txt", "kept on disk")
    remember(sandbox, "only-in-memory")
    resume_elsewhere(sandbox)
    assert remembered(sandbox) == ("only-in-memory", "only-in-memory")
    assert sandbox.files.read("notes/one.txt") == b"kept on disk"
    pod = sandbox.get_pod_name()
    client.delete_sandbox(sandbox.claim_name)
    wait_until("the machine of a deleted claim is still there", lambda: is_gone(pod))
    assert sandbox.claim_name not in client.list_all_sandboxes()


def full() -> None:
    sandbox = client.create_sandbox(
        POOL,
        sandbox_ready_timeout=SLOW,
        claim_name="mine",
        env={"GREETING": "it's me"},
        pod_labels={"sandbox.users.io/team": "blue"},
        pod_annotations={"example.com/note": "x"},
    )
    same = client.create_sandbox(POOL, claim_name="mine", adopt_existing=True)
    assert same.sandbox_id == sandbox.sandbox_id
    assert client.get_sandbox("mine").sandbox_id == sandbox.sandbox_id
    assert sandbox.status()[0] == "SandboxReady", sandbox.status()
    pod = core.read_namespaced_pod(sandbox.get_pod_name(), "default")
    assert pod.metadata.labels["sandbox.users.io/team"] == "blue"
    assert pod.metadata.annotations["example.com/note"] == "x"
    commands(sandbox)
    files(sandbox)
    snapshots(sandbox)
    sandbox.terminate()
    wait_until("the machine of an ended sandbox is still there", lambda: is_gone(pod.metadata.name))
    try:
        client.get_sandbox("mine", resolve_timeout=5)
        raise AssertionError("a sandbox that is gone")
    except SandboxNotFoundError:
        pass
    expiring = client.create_sandbox(POOL, sandbox_ready_timeout=SLOW, shutdown_after_seconds=2)
    wait_until("an expired claim is still there", lambda: expiring.claim_name not in client.list_all_sandboxes())


def commands(sandbox) -> None:
    assert run(sandbox, "sh -c 'echo \"$GREETING\"'") == "it's me\n"
    assert run(sandbox, "sh -c 'exit 3'", exit_code=3) == ""
    assert "not-a-program" in sandbox.commands.run("not-a-program", timeout=SLOW).stderr
    limited = sandbox.commands.run("sleep 600", timeout=SLOW, command_timeout=1)
    assert limited.timed_out, limited


def files(sandbox) -> None:
    sandbox.files.write("a/b.bin", bytes(range(256)) * 4096)
    assert sandbox.files.read("a/b.bin") == bytes(range(256)) * 4096
    sandbox.files.write("streamed", io.BytesIO(b"x" * 100_000))
    received = io.BytesIO()
    sandbox.files.read_to("streamed", received)
    assert received.getvalue() == b"x" * 100_000
    entry = sandbox.files.list("a")[0]
    assert (entry.name, entry.size, entry.type) == ("b.bin", 1_048_576, "file"), entry
    assert sandbox.files.exists("a/b.bin") and not sandbox.files.exists("a/none")


def snapshots(sandbox) -> None:
    remember(sandbox, "first")
    taken = sandbox.snapshots.create("by-hand")
    assert taken.success, taken
    remember(sandbox, "second")
    resume_elsewhere(sandbox)
    assert remembered(sandbox) == ("second", "second")
    suspend(sandbox)
    restored = sandbox.restore(taken.snapshot_uid, sandbox_ready_timeout=SLOW)
    assert restored.success, restored
    assert remembered(sandbox) == ("first", "first"), "set back to the snapshot"
    names = [each.snapshot_uid for each in sandbox.snapshots.list().snapshots]
    assert taken.snapshot_uid in names and len(names) == 3, names
    deleted = sandbox.snapshots.delete_all()
    assert deleted.success, deleted
    assert sandbox.snapshots.list().snapshots == []


short()
if "full" in sys.argv:
    full()
print("ok")
