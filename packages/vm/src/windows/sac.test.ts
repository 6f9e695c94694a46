/** Against a fake console: no Windows image is at hand. */
import assert from "node:assert/strict";
import { duplexPair, type Duplex } from "node:stream";
import { test } from "node:test";
import { isFault } from "@cocoon/core";
import { assignWindowsAddresses, computeMask, readNets } from "./sac.ts";

const timing = { promptMs: 60_000, stepMs: 20, listTries: 10, verifyTries: 5 };

interface Behaviour {
  /** Typed lines before the prompt appears. */
  readonly deafFor?: number;
  /** Questions before all interfaces are there. */
  readonly netsAfter?: number;
  readonly refusesAddresses?: boolean;
}

/** As Windows answers: echo, lines, prompt; addresses of both families. */
function fakeSac({ deafFor = 0, netsAfter = 0, refusesAddresses = false }: Behaviour = {}): {
  readonly near: Duplex;
  readonly typed: string[];
} {
  const [near, far] = duplexPair();
  const typed: string[] = [];
  const addresses = new Map([
    [4, "169.254.1.2"],
    [7, "169.254.3.4"],
  ]);
  let rest = "";
  far.setEncoding("utf8").on("data", (text: string) => {
    const lines = `${rest}${text}`.split("\r\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      typed.push(line);
      if (typed.length <= deafFor) continue;
      far.write(`${line}\r\n`);
      const [, net, ip] = /^i (\d+) (\S+) \S+ \S+$/.exec(line) ?? [];
      if (net !== undefined && ip !== undefined && !refusesAddresses) addresses.set(Number(net), ip);
      if (line === "i" && typed.filter((each) => each === "i").length > netsAfter)
        for (const [number, address] of addresses)
          far.write(
            `Net: ${number}, Ip=${address}  Subnet=255.255.0.0\r\nNet: ${number}, Ip=fe80::${number}\r\n`,
          );
      far.write("SAC>");
    }
  });
  return { near, typed };
}

const addresses = [{ ip: "10.88.0.5", prefix: 16, gateway: "10.88.0.1" }, undefined];

test("gives each interface its address, in order, once all are there", async (t) => {
  const { near, typed } = fakeSac({ deafFor: 2, netsAfter: 3 });
  await assignWindowsAddresses(near, { addresses, timing, signal: t.signal });
  assert.deepEqual(
    typed.filter((line) => line.startsWith("i ")),
    ["i 4 10.88.0.5 255.255.0.0 10.88.0.1"],
  );
  assert.ok(typed.includes(""), "the prompt is asked for by empty lines");
});

test("a console that never answers is a timeout that says what the image needs", async (t) => {
  const { near } = fakeSac({ deafFor: 10_000 });
  await assert.rejects(
    assignWindowsAddresses(near, { addresses, timing: { ...timing, promptMs: 60 }, signal: t.signal }),
    (error) => isFault(error, "timeout") && /EMS/.test(error.message),
  );
});

test("an address that is not taken is a timeout, too few interfaces as well", async (t) => {
  await assert.rejects(
    assignWindowsAddresses(fakeSac({ refusesAddresses: true }).near, {
      addresses,
      timing,
      signal: t.signal,
    }),
    /has not taken 10\.88\.0\.5/,
  );
  const three = [...addresses, undefined];
  await assert.rejects(
    assignWindowsAddresses(fakeSac().near, { addresses: three, timing, signal: t.signal }),
    /3 network interfaces/,
  );
});

test("lines and masks", () => {
  assert.deepEqual(readNets("x\r\nNet: 4, Ip=10.0.0.1  Subnet=…\r\nNet: 4, Ip=fe80::1\r\n"), [
    { net: 4, ip: "10.0.0.1" },
    { net: 4, ip: "fe80::1" },
  ]);
  assert.deepEqual([0, 8, 16, 23, 24, 32].map(computeMask), [
    "0.0.0.0",
    "255.0.0.0",
    "255.255.0.0",
    "255.255.254.0",
    "255.255.255.0",
    "255.255.255.255",
  ]);
});
