/** One of several registries on shared storage, as a process of its own. */
import { fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import type { RegistryOptions } from "@cocoon/registry";
import { Client } from "./world.ts";

export interface ReplicaOrder {
  readonly number: number;
  readonly order: "token" | "collect";
}

export interface ReplicaAnswer {
  readonly number: number;
  readonly result?: unknown;
  readonly problem?: string;
}

export interface Replica extends AsyncDisposable {
  readonly client: Client;
  as(token: string): Client;
  collectGarbage(): Promise<ReplicaAnswer>;
  createToken(): Promise<string>;
  kill(): void;
}

export async function startReplica(
  options: RegistryOptions & { readonly staticToken: string },
): Promise<Replica> {
  const child = fork(join(import.meta.dirname, "replica-child.ts"), [JSON.stringify(options)], {
    execArgv: [], // with the runner's own options it would be run as a test
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  const gone = once(child, "exit");
  const waiting = new Map<number, (answer: ReplicaAnswer) => void>();
  child.on("message", (answer: ReplicaAnswer) => {
    waiting.get(answer.number)?.(answer);
    waiting.delete(answer.number);
  });
  let last = 0;
  const wait = (number: number) =>
    new Promise<ReplicaAnswer>((resolve, reject) => {
      waiting.set(number, resolve);
      void gone.then(() => reject(new Error("the replica ended")));
    });
  const send = (order: ReplicaOrder["order"]) => {
    const number = (last += 1);
    child.send({ number, order }, () => undefined); // a replica that ended fails the wait
    return wait(number);
  };
  const url = (await wait(0)).result as string;
  return {
    client: new Client(url, options.staticToken),
    as: (token) => new Client(url, token),
    collectGarbage: () => send("collect"),
    createToken: async () => (await send("token")).result as string,
    kill: () => child.kill("SIGKILL"),
    [Symbol.asyncDispose]: async () => {
      child.kill("SIGKILL");
      if (child.exitCode === null && child.signalCode === null) await gone;
    },
  };
}
