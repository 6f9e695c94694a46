/** A port of the guest: in a new tab through the gateway, or by a command. */
import { useState, type ReactNode } from "react";
import type { MachineRow } from "../../../src/shared/rows.ts";
import { commandLine } from "../actions/action.ts";
import { session } from "../api/client.ts";
import { usePage } from "../parts/context.ts";
import { LockedButton } from "../parts/lock.tsx";
import { CommandText, ErrorBox } from "../parts/small.tsx";
import { texts } from "../texts.ts";

export function OpenPort({ machine }: { readonly machine: MachineRow }): ReactNode {
  const { me } = usePage();
  const [port, setPort] = useState("8080");
  const [error, setError] = useState("");
  const isPort = /^\d{1,5}$/.test(port) && Number(port) > 0 && Number(port) < 65_536;
  const { namespace, name } = machine;
  const right = { verb: "create", resource: "pods", subresource: "portforward", namespace, name };
  const open = () => {
    setError("");
    openTab({ namespace, machine: name, port: Number(port) }).catch((failure: unknown) =>
      setError(failure instanceof Error ? failure.message : String(failure)),
    );
  };
  return (
    <>
      <h2>{texts.port.title}</h2>
      <div className="row start">
        <label>
          {texts.port.port}{" "}
          <input
            type="number"
            min={1}
            max={65_535}
            value={port}
            onChange={(event) => setPort(event.target.value)}
          />
        </label>
        {me.hasGateway ? (
          <LockedButton rights={[right]} disabled={!isPort} onPress={open}>
            {texts.port.open}
          </LockedButton>
        ) : null}
      </div>
      <ErrorBox message={error} />
      {isPort ? (
        <CommandText
          label={me.hasGateway ? texts.port.orCommand : texts.port.command}
          command={commandLine("kubectl", "port-forward", "-n", namespace, `pod/${name}`, port)}
        />
      ) : null}
    </>
  );
}

/** The tab is opened at once, because browsers allow that only while a button is pressed. What it shows never sees this page. */
async function openTab(target: Parameters<typeof session.linkPort>[0]): Promise<void> {
  const tab = globalThis.open("about:blank", "_blank");
  if (tab) tab.opener = null;
  try {
    const { url } = await session.linkPort(target);
    if (!tab) throw new Error(texts.port.blocked);
    tab.location.replace(url);
  } catch (error) {
    tab?.close();
    throw error;
  }
}
