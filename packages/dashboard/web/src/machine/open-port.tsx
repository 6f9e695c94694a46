/** A port of the guest: through the gateway where the machine is a sandbox with open ports, else by a command. */
import { useState, type ReactNode } from "react";
import type { MachineRow } from "../../../src/shared/rows.ts";
import { commandLine } from "../actions/action.ts";
import { buildKey, useKind } from "../live/store.ts";
import { usePage } from "../parts/context.ts";
import { CommandText } from "../parts/small.tsx";
import { texts } from "../texts.ts";

export function OpenPort({ machine }: { readonly machine: MachineRow }): ReactNode {
  const { me, store } = usePage();
  const [port, setPort] = useState("8080");
  const number = /^\d{1,5}$/.test(port) && Number(port) > 0 && Number(port) < 65_536 ? port : "";
  const { namespace, name, set } = machine;
  const isSandbox = useKind(store, "set").rows.get(buildKey(namespace, set))?.sandbox ?? false;
  const address =
    me.gateway === "" || !isSandbox || number === ""
      ? ""
      : me.gateway.replace("{port}", number).replace("{sandbox}", set);
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
        {address === "" ? null : (
          <a className="button" href={address} target="_blank" rel="noopener noreferrer">
            {texts.port.open(address)}
          </a>
        )}
      </div>
      {number === "" ? null : (
        <CommandText
          label={address === "" ? texts.port.command : texts.port.orCommand}
          command={commandLine("kubectl", "port-forward", "-n", namespace, `pod/${name}`, number)}
        />
      )}
    </>
  );
}
