/**
 * `node:http` without its browser half. An `import` of it evaluates every export, `WebSocket` and `fetch` included,
 * which loads a second HTTP client: 60 ms of processor time at the start of a program that only wants to serve.
 */
import type http from "node:http";

export const nodeHttp: typeof http = process.getBuiltinModule("node:http");
