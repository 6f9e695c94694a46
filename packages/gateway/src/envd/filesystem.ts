/** Service `filesystem.Filesystem`. */
import type { Abortable } from "@cocoon/core";
import type { Guest } from "../guest/guest.ts";
import { parseRecord, type GuestRequest } from "../guest/protocol.ts";
import { ConnectError, type StreamAnswer } from "./connect-codec.ts";
import { readEntry, readWatchEvent } from "./entry.ts";
import {
  listRequest,
  moveRequest,
  parseRequest,
  pathRequest,
  watcherRequest,
  watchRequest,
} from "./messages.ts";

export interface ServiceCall extends Abortable {
  readonly guest: Guest;
  readonly user: string;
  /** Where a command starts that names no directory; "" is the user's home. */
  readonly directory: string;
}

type Unary = (message: unknown, call: ServiceCall) => Promise<unknown>;

async function callForEntry(request: GuestRequest, { guest, user, signal }: ServiceCall): Promise<unknown> {
  const [record] = await guest.call({ ...request, user }, { signal });
  if (!record) throw new ConnectError("internal", "the guest sent no entry");
  return { entry: readEntry(record) };
}

export const filesystemMethods: Readonly<Record<string, Unary>> = {
  Stat: (message, call) => callForEntry({ op: "stat", ...parseRequest(pathRequest, message) }, call),
  MakeDir: (message, call) => callForEntry({ op: "mkdir", ...parseRequest(pathRequest, message) }, call),
  Move: (message, call) => {
    const { source, destination } = parseRequest(moveRequest, message);
    return callForEntry({ op: "move", path: source, target: destination }, call);
  },
  ListDir: async (message, { guest, user, signal }) => {
    const { path, depth } = parseRequest(listRequest, message);
    const records = await guest.call({ op: "list", path, depth: depth || 1, user }, { signal });
    return { entries: records.map(readEntry) };
  },
  Remove: async (message, { guest, user, signal }) => {
    await guest.call({ op: "remove", ...parseRequest(pathRequest, message), user }, { signal });
    return {};
  },
  CreateWatcher: async (message, { guest, user, signal }) => {
    const { path, recursive, includeEntry } = parseRequest(watchRequest, message);
    const request = { op: "create-watcher", path, recursive, withEntry: includeEntry, user };
    const [record] = await guest.call(request, { signal });
    return { watcherId: record?.["watcher"] };
  },
  GetWatcherEvents: async (message, { guest, signal }) => {
    const { watcherId } = parseRequest(watcherRequest, message);
    const records = await guest.call({ op: "watcher-get", watcher: watcherId }, { signal });
    return { events: records.flatMap((record) => readWatchEvent(record) ?? []) };
  },
  RemoveWatcher: async (message, { guest, signal }) => {
    await guest.call(
      { op: "watcher-remove", watcher: parseRequest(watcherRequest, message).watcherId },
      { signal },
    );
    return {};
  },
};

export async function watchDirectory(
  message: unknown,
  answer: StreamAnswer,
  { guest, user, signal }: ServiceCall,
): Promise<void> {
  const { path, recursive, includeEntry } = parseRequest(watchRequest, message);
  const request = { op: "watch", path, recursive, withEntry: includeEntry, user };
  for await (const frame of guest.stream(request, { signal })) {
    if (frame.type !== "J") continue;
    const record = parseRecord(frame);
    const event = readWatchEvent(record);
    if (event) await answer.send({ filesystem: event });
    else if (record["started"]) await answer.send({ start: {} });
  }
}
