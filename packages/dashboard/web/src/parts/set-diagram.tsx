/** The machines of a set: the main agent, the sub-agents below it with lines from what they were forked from, toolboxes beside. */
import type { ReactNode } from "react";
import type { MachineRow } from "../../../src/shared/rows.ts";
import { buildPath } from "../route.ts";
import { texts } from "../texts.ts";
import { Progress } from "./progress.tsx";
import { Badge, Link } from "./small.tsx";

const shownSubAgents = 200;

interface DiagramProps {
  readonly machines: readonly MachineRow[];
  readonly suspended: boolean;
}

export function SetDiagram({ machines, suspended }: DiagramProps): ReactNode {
  if (machines.length === 0) return <p>{suspended ? texts.set.allAsleep : texts.set.noMachines}</p>;
  const byRole = (role: string) => machines.filter((machine) => machine.role === role);
  const subAgents = byRole("sub-agent");
  return (
    <div className="diagram">
      <ul className="tree" aria-label={texts.set.diagram}>
        {byRole("main").map((machine) => (
          <li key={machine.name}>
            <MachineCard machine={machine} />
            {subAgents.length === 0 ? null : (
              <ul>
                {subAgents.slice(0, shownSubAgents).map((fork) => (
                  <li key={fork.name}>
                    <MachineCard machine={fork} />
                  </li>
                ))}
              </ul>
            )}
          </li>
        ))}
      </ul>
      <ul className="toolboxes">
        {byRole("toolbox").map((machine) => (
          <li key={machine.name}>
            <MachineCard machine={machine} />
          </li>
        ))}
      </ul>
    </div>
  );
}

function MachineCard({ machine }: { readonly machine: MachineRow }): ReactNode {
  const { namespace, name, role, state, node, ip, memory } = machine;
  const title = texts.set[role as "main" | "sub-agent" | "toolbox"] ?? role;
  return (
    <article className="card">
      <Link to={buildPath("machines", namespace, name)}>{name}</Link>
      <span>
        {title} <Badge text={state} />
      </span>
      <small>
        {node}
        {ip === "" ? "" : ` · ${ip}`}
        {memory === "" ? "" : ` · ${memory}`}
      </small>
      <Progress machine={machine} />
    </article>
  );
}
