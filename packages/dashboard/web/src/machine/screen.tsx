/** The screen of a machine: the hypervisor's display, drawn by noVNC. Keys and mouse go to the machine while it has the focus. */
import { useEffect, useRef, useState, type ReactNode } from "react";
import RFB from "@novnc/novnc";
import type { MachineRow } from "../../../src/shared/rows.ts";
import { texts } from "../texts.ts";
import { openScreenChannel } from "./screen-channel.ts";

type Connection =
  | { readonly kind: "connecting" | "open" }
  | { readonly kind: "closed"; readonly why: string };

export function ScreenView({ machine }: { readonly machine: MachineRow }): ReactNode {
  const place = useRef<HTMLDivElement>(null);
  const screen = useRef<RFB>(undefined);
  const [attempt, setAttempt] = useState(0);
  const [connection, setConnection] = useState<Connection>({ kind: "connecting" });
  const { namespace, name, container } = machine;
  useEffect(() => {
    void attempt; // another attempt opens it again
    const element = place.current;
    if (!element) return undefined;
    setConnection({ kind: "connecting" });
    const channel = openScreenChannel({ namespace, pod: name, container });
    const made = new RFB(element, channel, { shared: true });
    made.scaleViewport = true;
    made.background = "transparent";
    made.addEventListener("connect", () => {
      setConnection({ kind: "open" });
      made.focus();
    });
    made.addEventListener("disconnect", () =>
      setConnection({ kind: "closed", why: channel.end?.message ?? "" }),
    );
    screen.current = made;
    return () => {
      screen.current = undefined;
      made.disconnect();
    };
  }, [attempt, namespace, name, container]);
  return (
    <div className="terminal-view">
      <ScreenTools connection={connection} read={() => screen.current} />
      {connection.kind === "closed" ? (
        <div className="notice" role="alert">
          {texts.terminal.closed(connection.why)}{" "}
          <button type="button" onClick={() => setAttempt(attempt + 1)}>
            {texts.terminal.reconnect}
          </button>
        </div>
      ) : null}
      <div ref={place} className="screen-place" role="group" aria-label={texts.screen.label} />
    </div>
  );
}

interface ToolsProps {
  readonly connection: Connection;
  readonly read: () => RFB | undefined;
}

function ScreenTools({ connection, read }: ToolsProps): ReactNode {
  const [draft, setDraft] = useState("");
  const isOpen = connection.kind === "open";
  return (
    <div className="row start">
      <span role="status">{texts.screen[connection.kind]}</span>
      <button type="button" disabled={!isOpen} onClick={() => read()?.sendCtrlAltDel()}>
        {texts.screen.ctrlAltDel}
      </button>
      <label>
        {texts.screen.text}{" "}
        <input
          value={draft}
          onChange={(event) => setDraft(event.target.value)}
          autoComplete="off"
          size={30}
        />
      </label>
      <button
        type="button"
        disabled={!isOpen || draft === ""}
        onClick={() => {
          typeText(read(), draft);
          setDraft("");
        }}
      >
        {texts.screen.type}
      </button>
    </div>
  );
}

/** As keys, one by one: a guest without a clipboard agent takes nothing else. */
function typeText(screen: RFB | undefined, text: string): void {
  for (const letter of text) screen?.sendKey(keysym(letter), "");
}

/** X11's numbers: Latin-1 is itself, everything else lies above 0x01000000. */
function keysym(letter: string): number {
  if (letter === "\n") return 0xff_0d;
  const code = letter.codePointAt(0) ?? 0;
  return code < 0x1_00 ? code : 0x1_00_00_00 + code;
}
