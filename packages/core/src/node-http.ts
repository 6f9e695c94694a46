/** `node:http` without `WebSocket` and `fetch`: an import loads them too, 60 ms of CPU time at the start of a program. */
import type http from "node:http";

export const nodeHttp: typeof http = process.getBuiltinModule("node:http");
