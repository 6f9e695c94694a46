"""The public Python SDK of E2B, unchanged, sync and async. The environment names the gateway."""

import asyncio

from e2b import AsyncSandbox, CommandExitException, NotFoundException, Sandbox

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
    assert sandbox.sandbox_id in [each.sandbox_id for each in Sandbox.list().next_items()]
    return sandbox.sandbox_id


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
