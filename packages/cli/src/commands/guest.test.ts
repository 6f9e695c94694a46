import assert from "node:assert/strict";
import { test } from "node:test";
import { annotation, label } from "@cocoon/contract";
import { assertAwake } from "../guest/assert-awake.ts";
import { typed } from "./console.ts";
import { execArguments } from "./exec.ts";
import { assertPort } from "./port-forward.ts";
import { readForwardedPort } from "../guest/forward-port.ts";
import { hostKeyAlias, sshArguments } from "./ssh.ts";

const machine = { pod: "demo-0", container: "agent" };
const shell = ["demo-0", "--container", "agent", "--", "sh", "-l"];

test("exec without a command is a shell, with a terminal where there is one", () => {
  const there = { stdin: true, stdout: true };
  const piped = { stdin: false, stdout: true };
  assert.deepEqual(execArguments({ ...machine, command: [], options: {}, terminal: there }), [
    "exec",
    "--stdin",
    "--tty",
    ...shell,
  ]);
  assert.deepEqual(execArguments({ ...machine, command: [], options: {}, terminal: piped }), [
    "exec",
    "--stdin",
    ...shell,
  ]);
  const list = ["demo-0", "--container", "agent", "--", "ls", "-l"];
  assert.deepEqual(execArguments({ ...machine, command: ["ls", "-l"], options: {}, terminal: there }), [
    "exec",
    ...list,
  ]);
  assert.deepEqual(execArguments({ ...machine, command: ["ls", "-l"], options: {}, terminal: piped }), [
    "exec",
    "--stdin",
    ...list,
  ]);
  assert.deepEqual(
    execArguments({
      ...machine,
      command: ["ls", "-l"],
      options: { stdin: true, tty: true },
      terminal: there,
    }),
    ["exec", "--stdin", "--tty", ...list],
  );
});

test("ssh goes to the forwarded port and remembers the host key for the machine of that set", () => {
  const args = sshArguments({
    localPort: 4022,
    hostKeyAlias: "demo-0.uid",
    knownHosts: "/state of mine/known_hosts",
    command: ["uptime"],
    options: { login: "root", identity: "key" },
  });
  assert.deepEqual(args.slice(0, 6), ["-p", "4022", "-l", "root", "-i", "key"]);
  assert.ok(args.includes("HostKeyAlias=demo-0.uid"));
  assert.ok(args.includes('UserKnownHostsFile="/state of mine/known_hosts"'));
  assert.deepEqual(args.slice(-3), ["127.0.0.1", "--", "uptime"]);
  const owner = { apiVersion: "x", kind: "CocoonSet", name: "demo", uid: "set-uid" };
  assert.equal(
    hostKeyAlias({ metadata: { name: "demo-0", uid: "u", ownerReferences: [owner] } }),
    "demo-0.set-uid",
  );
  assert.equal(hostKeyAlias({ metadata: { name: "alone", uid: "u" } }), "alone.u");
  assert.equal(readForwardedPort("Forwarding from 127.0.0.1:40531 -> 22"), 40_531);
  assert.equal(readForwardedPort("Handling connection for 40531"), undefined);
});

test("only the leave key is kept from the guest", () => {
  assert.deepEqual(typed(Buffer.from("ls\r\x03")), { forGuest: Buffer.from("ls\r\x03"), leave: false });
  assert.deepEqual(typed(Buffer.from("ls\x1dx")), { forGuest: Buffer.from("ls"), leave: true });
});

test("a machine that sleeps is not reached, and the way to wake it is said", () => {
  const pod = (annotations: Record<string, string>) => ({
    metadata: { name: "demo-1", labels: { [label.set]: "demo" }, annotations },
    spec: { nodeName: "a", containers: [] },
  });
  const sleeps = { [annotation.lifecycleState]: "hibernated", [annotation.hibernate]: "true" };
  assert.throws(
    () => assertAwake(pod(sleeps)),
    /demo-1 sleeps; wake it first: cocoonctl wake demo-1, or cocoonctl resume demo/,
  );
  assert.throws(() => assertAwake(pod({})), /demo-1 is pending \(node a has not reported/);
  const creating = { [annotation.lifecycleState]: "creating" };
  assert.throws(() => assertAwake(pod(creating)), /is creating, there is no machine to reach yet/);
  assert.doesNotThrow(
    () => assertAwake(pod({ ...creating, [annotation.vmId]: "x" })),
    "its console is there",
  );
  assert.doesNotThrow(() =>
    assertAwake(pod({ [annotation.lifecycleState]: "ready", [annotation.vmId]: "x" })),
  );
});

test("ports to forward are LOCAL:REMOTE or one number", () => {
  for (const port of ["80", "8080:80", ":80", "65535:1"]) assertPort(port);
  for (const port of ["", "0", "80:", "a", "1:2:3", "65536", "-1", "80 81"])
    assert.throws(() => assertPort(port), /is not a port/);
});
