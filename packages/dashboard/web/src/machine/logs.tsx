/** The log of a machine, growing as it grows. Lines are text and nothing else, whatever they contain. */
import { useEffect, useRef, useState, type ReactNode } from "react";
import type { MachineRow } from "../../../src/shared/rows.ts";
import { kubeStream } from "../api/client.ts";
import { podPath, queryText } from "../api/paths.ts";
import { ErrorBox } from "../parts/small.tsx";
import { texts } from "../texts.ts";

const keptLines = 5_000;
const pastLines = "1000";
const drawEveryMs = 100;

export function Logs({ machine }: { readonly machine: MachineRow }): ReactNode {
  const [follow, setFollow] = useState(true);
  const [fromConsole, setFromConsole] = useState(false);
  const [filter, setFilter] = useState("");
  const [attempt, setAttempt] = useState(0);
  const { lines, error } = useLog(machine, { follow, fromConsole, attempt });
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

function useLog(
  { namespace, name, container }: MachineRow,
  { follow, fromConsole, attempt }: LogChoice,
): { readonly lines: readonly string[]; readonly error: string } {
  const [lines, setLines] = useState<readonly string[]>([]);
  const [error, setError] = useState("");
  useEffect(() => {
    void attempt; // another attempt reads it again
    const stop = new AbortController();
    setLines([]);
    setError("");
    const query = {
      container,
      tailLines: pastLines,
      follow: String(follow),
      ...(fromConsole ? { previous: "true" } : {}),
    };
    readLines(podPath(namespace, name, "log") + queryText(query), {
      signal: stop.signal,
      onLines: setLines,
    }).catch((failure: unknown) => {
      if (!stop.signal.aborted) setError(failure instanceof Error ? failure.message : String(failure));
    });
    return () => stop.abort();
  }, [namespace, name, container, follow, fromConsole, attempt]);
  return { lines, error };
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
    onLines(rest === "" ? lines : [...lines, rest]);
  };
  const reader = response.body?.getReader();
  for (let piece = await reader?.read(); piece && !piece.done; piece = await reader?.read()) {
    const parts = (rest + decoder.decode(piece.value, { stream: true })).split("\n");
    rest = parts.pop() ?? "";
    lines = [...lines, ...parts].slice(-keptLines);
    timer ??= setTimeout(draw, drawEveryMs);
  }
  clearTimeout(timer);
  draw();
}
