/** The stream of a machine's screen as noVNC takes it: a channel that looks like a WebSocket, over exec. */
import type { RawChannel } from "@novnc/novnc";
import { screenCommand } from "@cocoon/contract/screen";
import { openCommand, type CommandEnd, type CommandTarget } from "../api/remote-command.ts";

export interface ScreenChannel extends RawChannel {
  /** Why it ended; undefined while it is open. */
  readonly end: CommandEnd | undefined;
}

export function openScreenChannel(target: CommandTarget): ScreenChannel {
  let end: CommandEnd | undefined;
  const channel: ScreenChannel & { readyState: string } = {
    binaryType: "arraybuffer",
    protocol: "",
    readyState: "open",
    onopen: null,
    onmessage: null,
    onclose: null,
    onerror: null,
    get end() {
      return end;
    },
    send: (bytes) => remote.write(bytes),
    close: () => {
      channel.readyState = "closed";
      remote.close();
    },
  };
  const remote = openCommand({
    ...target,
    kind: "exec",
    command: [screenCommand],
    stdin: true,
    onOutput: (bytes, isError) => {
      if (!isError) channel.onmessage?.({ data: bytes.slice().buffer });
    },
    onEnd: (ended) => {
      end = ended;
      channel.readyState = "closed";
      channel.onclose?.({ code: ended.exitCode === 0 ? 1000 : 1006, reason: ended.message });
    },
  });
  return channel;
}
