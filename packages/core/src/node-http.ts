import type http from "node:http";

/**
 * `node:http` without its browser half. An `import` of it evaluates every export, `WebSocket` and `fetch` included,
 * which loads a second HTTP client: 15 MB of memory and 60 ms of processor time in every program that only wants to
 * serve.
 */
export const nodeHttp: typeof http = process.getBuiltinModule("node:http");
