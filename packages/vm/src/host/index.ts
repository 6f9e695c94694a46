/** host: what engines and images need of the host: Unix sockets, programs. */
export { connectGuest, dialAddress } from "./connect-guest.ts";
export { readProcessFile } from "./process-file.ts";
export {
  findTool,
  isInstalled,
  requireTools,
  runTool,
  type RunOptions,
  type ToolName,
  type ToolOutput,
} from "./tools.ts";
export { connectIn, receiveOnce } from "./unix-socket.ts";
