"""The public Python SDK of E2B, unchanged, sync and async. The environment names the gateway."""

import asyncio

from e2b import AsyncSandbox, CommandExitException, NotFoundException, Sandbox
from e2b.sandbox.commands.command_handle import PtySize

SLOW = {"request_timeout": 240}


def sync_calls() -> str:
    sandbox = Sandbox.create(timeout=3600, metadata={"from": "python"}, envs={"A": "1"}, **SLOW)
    ran = sandbox.commands.run("echo $A; id -un; echo oops >&2")
    assert (ran.stdout, ran.stderr) == ("1\nuser\n", "oops\n"), ran
    try:
        sandbox.commands.run("exit 3")
        raise AssertionError("a command that failed")
    except CommandExitException as error:
        assert error.exit_code == 3
    sandbox.files.write("a.txt", "content")
    assert sandbox.files.read("a.txt") == "content"
    assert sandbox.files.exists("a.txt") and not sandbox.files.exists("none")
    try:
        sandbox.files.read("none")
        raise AssertionError("a file that is not there")
    except NotFoundException:
        pass
    sandbox.files.make_dir("watched")
    watcher = sandbox.files.watch_dir("watched")
    sandbox.files.write("watched/x", "1")
    events = [(event.name, event.type.value) for event in watcher.get_new_events()]
    assert events == [("x", "create"), ("x", "chmod"), ("x", "write")], events
    watcher.stop()
    handle = sandbox.commands.run("cat", background=True, stdin=True)
    sandbox.commands.send_stdin(handle.pid, "x\n")
    assert sandbox.commands.kill(handle.pid) and not sandbox.commands.kill(handle.pid)
    assert sandbox.get_info().state.value == "running"
    files_and_processes(sandbox)
    copies(sandbox)
    assert sandbox.sandbox_id in [each.sandbox_id for each in Sandbox.list().next_items()]
    return sandbox.sandbox_id


def files_and_processes(sandbox: Sandbox) -> None:
    sandbox.files.write_files([{"path": "d/one", "data": "1"}, {"path": "d/two", "data": b"2"}])
    assert [entry.name for entry in sandbox.files.list("d")] == ["one", "two"]
    assert sandbox.files.get_info("d/one").size == 1
    sandbox.files.rename("d/one", "d/three")
    sandbox.files.remove("d/two")
    assert [entry.name for entry in sandbox.files.list("d")] == ["three"]
    assert sandbox.files.read("/proc/version").startswith("Linux")
    background = sandbox.commands.run("sleep 1; echo end", background=True)
    assert background.pid in [each.pid for each in sandbox.commands.list()]
    assert sandbox.commands.connect(background.pid).wait().stdout == "end\n"
    terminal = sandbox.pty.create(PtySize(rows=24, cols=80))
    sandbox.pty.resize(terminal.pid, PtySize(rows=30, cols=100))
    sandbox.pty.send_stdin(terminal.pid, b"stty size; exit\n")
    shown: list[bytes] = []
    try:
        terminal.wait(on_pty=shown.append)
    except CommandExitException:
        pass
    assert b"30 100" in b"".join(shown), shown
    sandbox.set_timeout(3600)
    assert sandbox.get_metrics()[0].cpu_count >= 1


def copies(sandbox: Sandbox) -> None:
    snapshot = sandbox.create_snapshot(name="from-python", **SLOW)
    assert snapshot.snapshot_id in [each.snapshot_id for each in sandbox.list_snapshots().next_items()]
    [fork] = sandbox.fork(timeout=600, **SLOW)
    assert isinstance(fork, Sandbox), fork
    assert fork.files.read("a.txt") == "content"
    assert fork.kill()
    assert Sandbox.delete_snapshot(snapshot.snapshot_id)


async def async_calls(sandbox_id: str) -> None:
    sandbox = await AsyncSandbox.connect(sandbox_id, timeout=3600, **SLOW)
    output: list[str] = []
    handle = await sandbox.commands.run("for i in 1 2 3; do echo $i; done", background=True, on_stdout=output.append)
    assert (await handle.wait()).stdout == "1\n2\n3\n"
    await sandbox.files.write("b.txt", "async")
    assert await sandbox.files.read("b.txt") == "async"
    assert await sandbox.pause(**SLOW)
    assert not await sandbox.is_running()
    again = await AsyncSandbox.connect(sandbox_id, timeout=3600, **SLOW)
    assert await again.files.read("b.txt") == "async"
    assert await again.kill()
    assert not await again.kill()


asyncio.run(async_calls(sync_calls()))
print("ok")
