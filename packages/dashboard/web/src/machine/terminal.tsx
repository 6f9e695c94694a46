/** A terminal in the browser: a shell in the machine (exec) or its serial console with history (attach). */
import { useEffect, useRef, useState, type ReactNode } from "react";
import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import type { MachineRow } from "../../../src/shared/rows.ts";
import { kubeStream } from "../api/client.ts";
import { podPath, queryText } from "../api/paths.ts";
import { openCommand, type CommandEnd } from "../api/remote-command.ts";
import { texts } from "../texts.ts";
import { allowTerminalStyles } from "./style-nonce.ts";

/** The best shell there is. */
const shell = [
  "sh",
  "-c",
  "TERM=xterm-256color; export TERM; command -v bash >/dev/null 2>&1 && exec bash -l; exec sh -l",
];
const historyLines = "500";

interface TerminalProps {
  readonly machine: MachineRow;
  readonly kind: "exec" | "attach";
}

export function TerminalView({ machine, kind }: TerminalProps): ReactNode {
  const place = useRef<HTMLDivElement>(null);
  const [attempt, setAttempt] = useState(0);
  const [end, setEnd] = useState<CommandEnd>();
  const { namespace, name, container } = machine;
  useEffect(() => {
    const element = place.current;
    if (!element) return undefined;
    setEnd(undefined);
    return connect(element, { kind, namespace, pod: name, container, onEnd: setEnd });
  }, [attempt, kind, namespace, name, container]);
  return (
    <div className="terminal-view">
      {kind === "attach" ? <p>{texts.terminal.consoleHint}</p> : null}
      {end ? (
        <div className="notice" role="alert">
          {texts.terminal.closed(end.message)}{" "}
          <button type="button" onClick={() => setAttempt(attempt + 1)}>
            {texts.terminal.reconnect}
          </button>
        </div>
      ) : null}
      <div
        ref={place}
        className="terminal-place"
        role="group"
        aria-label={kind === "attach" ? texts.terminal.consoleLabel : texts.terminal.label}
      />
    </div>
  );
}

interface ConnectOptions {
  readonly kind: "exec" | "attach";
  readonly namespace: string;
  readonly pod: string;
  readonly container: string;
  readonly onEnd: (end: CommandEnd) => void;
}

function connect(element: HTMLElement, options: ConnectOptions): () => void {
  const { kind, onEnd, ...target } = options;
  allowTerminalStyles();
  const terminal = new Terminal({
    scrollback: 5_000,
    screenReaderMode: true,
    fontSize: 13,
    convertEol: false,
  });
  terminal.attachCustomKeyEventHandler((event) => !copySelection(terminal, event));
  const fit = new FitAddon();
  terminal.loadAddon(fit);
  terminal.open(element);
  fit.fit();
  const isShell = kind === "exec";
  const stop = new AbortController();
  const remote = openCommand({
    ...target,
    kind,
    command: isShell ? shell : [],
    tty: isShell,
    stdin: true,
    onOutput: (bytes) => terminal.write(bytes),
    onEnd,
  });
  const encoder = new TextEncoder();
  terminal.onData((text) => remote.write(encoder.encode(text)));
  terminal.onBinary((text) => remote.write(Uint8Array.from(text, (letter) => letter.charCodeAt(0))));
  if (isShell) {
    terminal.onResize(({ cols, rows }) => remote.resize(cols, rows));
    remote.resize(terminal.cols, terminal.rows);
  } else void showHistory(terminal, options, stop.signal);
  const observer = new ResizeObserver(() => fit.fit());
  observer.observe(element);
  terminal.focus();
  return () => {
    stop.abort();
    observer.disconnect();
    remote.close();
    terminal.dispose();
  };
}

/** Ctrl+Shift+C copies what is selected, as in other terminals: Ctrl+C is for the machine. Pasting is the browser's own. */
function copySelection(terminal: Terminal, event: KeyboardEvent): boolean {
  const isCopy = event.type === "keydown" && event.ctrlKey && event.shiftKey && event.code === "KeyC";
  if (!isCopy || !terminal.hasSelection()) return false;
  event.preventDefault();
  void navigator.clipboard.writeText(terminal.getSelection());
  return true;
}

/** What the console showed before: vk-cocoon answers `previous` with it. */
async function showHistory(
  terminal: Terminal,
  { namespace, pod, container }: ConnectOptions,
  signal: AbortSignal,
): Promise<void> {
  const query = queryText({ container, previous: "true", tailLines: historyLines });
  try {
    const response = await kubeStream(podPath(namespace, pod, "log") + query, signal);
    const text = await response.text();
    terminal.write(text.replaceAll(/\r?\n/g, "\r\n"));
  } catch {
    // Without history the console still works: the user may attach without the right to read logs.
  }
}
