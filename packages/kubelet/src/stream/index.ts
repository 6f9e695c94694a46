/** Streams between an API server and a kubelet: exec, attach and port-forward over SPDY/3.1 and WebSocket. */
export { servePortForward } from "./port-forward.ts";
export { readCommandQuery, serveCommand, type CommandIo, type CommandRunner } from "./remote-command.ts";
export { acceptSpdyCommand, defaultStreamTimes, type StreamTimes } from "./spdy-command.ts";
export type { CommandEnd } from "./status.ts";
export type { TerminalSize } from "./terminal-size.ts";
export { isWebSocket, refuseUpgrade, type UpgradeRequest } from "./upgrade.ts";
export { acceptWebSocketCommand } from "./websocket-command.ts";
