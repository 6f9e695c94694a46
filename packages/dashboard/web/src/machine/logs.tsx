/**
 * The log of a machine, growing as it grows. A stream that ends, because the machine slept or a server restarted, is followed again.
 * Lines are text and nothing else, whatever they contain.
 */
import { useEffect, useRef, useState, type ReactNode } from "react";
import type { MachineRow } from "../../../src/shared/rows.ts";
import { kubeStream } from "../api/client.ts";
import { podPath, queryText } from "../api/paths.ts";
import { ErrorBox } from "../parts/small.tsx";
import { texts } from "../texts.ts";

const keptLines = 5_000;
const pastLines = "1000";
const drawEveryMs = 100;
/** Between two attempts; longer each time when streams end at once. */
const againMs = { least: 1_000, most: 30_000, lasting: 15_000 } as const;
/** A machine without a VM has no log to follow. */
const withoutVm: ReadonlySet<string> = new Set(["asleep", "pending"]);

export function Logs({ machine }: { readonly machine: MachineRow }): ReactNode {
  const [follow, setFollow] = useState(true);
  const [fromConsole, setFromConsole] = useState(false);
  const [filter, setFilter] = useState("");
  const [attempt, setAttempt] = useState(0);
  const { lines, error, note } = useLog(machine, { follow, fromConsole, attempt });
  const box = useRef<HTMLPreElement>(null);
  const shown = filter === "" ? lines : lines.filter((line) => line.includes(filter));
  useEffect(() => {
    if (follow && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [shown, follow]);
  return (
    <div className="logs">
      <div className="row">
        <label>
          <input type="checkbox" checked={follow} onChange={(event) => setFollow(event.target.checked)} />{" "}
          {texts.logs.follow}
        </label>
        <label>
          <input
            type="checkbox"
            checked={fromConsole}
            onChange={(event) => setFromConsole(event.target.checked)}
          />{" "}
          {texts.logs.console}
        </label>
        <label>
          {texts.logs.filter} <input value={filter} onChange={(event) => setFilter(event.target.value)} />
        </label>
        <button type="button" onClick={() => setAttempt(attempt + 1)}>
          {texts.logs.again}
        </button>
      </div>
      <ErrorBox message={error} />
      {note === "" ? null : <p role="status">{note}</p>}
      <pre ref={box} tabIndex={0} role="log" aria-label={texts.logs.label}>
        {shown.join("\n")}
      </pre>
    </div>
  );
}

interface LogChoice {
  readonly follow: boolean;
  readonly fromConsole: boolean;
  readonly attempt: number;
}

interface LogView {
  readonly lines: readonly string[];
  readonly error: string;
  /** Why no more lines come just now. */
  readonly note: string;
}

const nothing: LogView = { lines: [], error: "", note: "" };

function useLog({ namespace, name, container, state }: MachineRow, choice: LogChoice): LogView {
  const { follow, fromConsole, attempt } = choice;
  const [view, setView] = useState<LogView>(nothing);
  const hasVm = !withoutVm.has(state);
  useEffect(() => {
    void attempt; // another attempt reads it again
    setView(nothing);
  }, [namespace, name, follow, fromConsole, attempt]);
  useEffect(() => {
    void attempt;
    const note = follow ? texts.logs.asleep : "";
    if (!hasVm && follow) return setView((before) => ({ ...before, error: "", note }));
    const stop = new AbortController();
    const query = {
      container,
      tailLines: pastLines,
      follow: String(follow),
      ...(fromConsole ? { previous: "true" } : {}),
    };
    const path = podPath(namespace, name, "log") + queryText(query);
    void followLog(path, { follow, signal: stop.signal, onChange: setView });
    return () => stop.abort();
  }, [namespace, name, container, follow, fromConsole, attempt, hasVm]);
  return view;
}

interface FollowOptions {
  readonly follow: boolean;
  readonly signal: AbortSignal;
  readonly onChange: (change: (before: LogView) => LogView) => void;
}

/** What was read stays until the next stream has lines: it begins with the same ones. */
async function followLog(path: string, { follow, signal, onChange }: FollowOptions): Promise<void> {
  for (let pauseMs: number = againMs.least; !signal.aborted;) {
    const startedAt = Date.now();
    let error = "";
    try {
      await readLines(path, { signal, onLines: (lines) => onChange(() => ({ ...nothing, lines })) });
    } catch (failure) {
      error = failure instanceof Error ? failure.message : String(failure);
    }
    if (signal.aborted) return;
    onChange((before) => ({ ...before, error, note: follow ? texts.logs.ended : "" }));
    if (!follow) return;
    const isLasting = Date.now() - startedAt > againMs.lasting;
    pauseMs = isLasting ? againMs.least : Math.min(againMs.most, 2 * pauseMs);
    await pause(pauseMs, signal);
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}

interface ReadOptions {
  readonly signal: AbortSignal;
  readonly onLines: (lines: readonly string[]) => void;
}

async function readLines(path: string, { signal, onLines }: ReadOptions): Promise<void> {
  const response = await kubeStream(path, signal);
  const decoder = new TextDecoder();
  let lines: string[] = [];
  let rest = "";
  let timer: ReturnType<typeof setTimeout> | undefined;
  const draw = () => {
    timer = undefined;
    const all = rest === "" ? lines : [...lines, rest];
    if (all.length > 0) onLines(all);
  };
  const reader = response.body?.getReader();
  for (let piece = await reader?.read(); piece && !piece.done; piece = await reader?.read()) {
    const parts = (rest + decoder.decode(piece.value, { stream: true })).split("\n");
    rest = parts.pop() ?? "";
    lines = [...lines, ...parts].slice(-keptLines);
    timer ??= setTimeout(draw, drawEveryMs);
  }
  clearTimeout(timer);
  if (!signal.aborted) draw();
}
