/** One machine: overview with its life, terminal, console, logs, files. */
import { lazy, Suspense, type ReactNode } from "react";
import type { MachineRow } from "../../../src/shared/rows.ts";
import { listMachineActions } from "../actions/machine-actions.ts";
import { listMachines } from "../live/machines.ts";
import { buildKey, useKind } from "../live/store.ts";
import { Files } from "../machine/files.tsx";
import { Logs } from "../machine/logs.tsx";
import { Overview } from "../machine/overview.tsx";
import { AwakeOnly } from "../machine/awake-only.tsx";
import { ActionButton } from "../parts/action-button.tsx";
import { usePage } from "../parts/context.ts";
import { NeedsRight } from "../parts/lock.tsx";
import { Badge, Link } from "../parts/small.tsx";
import { buildPath } from "../route.ts";
import { texts } from "../texts.ts";

const TerminalView = lazy(async () => ({ default: (await import("../machine/terminal.tsx")).TerminalView }));

const ScreenView = lazy(async () => ({ default: (await import("../machine/screen.tsx")).ScreenView }));

type View = keyof typeof texts.machine.tabs;
const views = Object.keys(texts.machine.tabs) as readonly View[];
/** What each needs of the user; the overview asks by itself. */
const subresources: Readonly<Record<Exclude<View, "overview">, string>> = {
  terminal: "exec",
  console: "attach",
  logs: "log",
  files: "exec",
  screen: "exec",
};

interface MachinePageProps {
  readonly namespace: string;
  readonly name: string;
  readonly view: string;
}

export function MachinePage({ namespace, name, view }: MachinePageProps): ReactNode {
  const { store } = usePage();
  const pods = useKind(store, "machine");
  const sets = useKind(store, "set");
  const hibernations = useKind(store, "hibernation");
  const key = buildKey(namespace, name);
  const machine =
    pods.rows.get(key) ??
    listMachines(pods.rows, sets.rows).find((each) => buildKey(each.namespace, each.name) === key);
  if (!machine) return <p>{pods.synced ? texts.machine.gone : texts.list.loading}</p>;
  const offered = views.filter((each) => each !== "screen" || machine.screen);
  const current = offered.find((each) => each === view) ?? "overview";
  return (
    <section className="machine">
      <div className="row">
        <h1>
          {name} <Badge text={machine.state} />
        </h1>
        <div className="row actions">
          {listMachineActions(machine, hibernations.rows.get(key)).map((action) => (
            <ActionButton key={action.title} action={action} />
          ))}
        </div>
      </div>
      <nav className="tabs" aria-label={texts.machine.tabsLabel}>
        {offered.map((each) => (
          <Link key={each} to={buildPath("machines", namespace, name, each)} current={each === current}>
            {texts.machine.tabs[each]}
          </Link>
        ))}
      </nav>
      <MachineView machine={machine} view={current} />
    </section>
  );
}

function MachineView({ machine, view }: { readonly machine: MachineRow; readonly view: View }): ReactNode {
  if (view === "overview") return <Overview machine={machine} />;
  const { namespace, name } = machine;
  const reads = view === "logs";
  const subresource = subresources[view];
  const right = { verb: reads ? "get" : "create", resource: "pods", subresource, namespace, name };
  return (
    <NeedsRight right={right} reads={reads}>
      {reads ? (
        <Logs machine={machine} />
      ) : (
        <AwakeOnly machine={machine}>
          <Suspense fallback={<p>{texts.list.loading}</p>}>
            <LiveView machine={machine} view={view} />
          </Suspense>
        </AwakeOnly>
      )}
    </NeedsRight>
  );
}

function LiveView({ machine, view }: { readonly machine: MachineRow; readonly view: View }): ReactNode {
  if (view === "files") return <Files machine={machine} />;
  if (view === "screen") return <ScreenView machine={machine} />;
  return <TerminalView key={view} machine={machine} kind={view === "console" ? "attach" : "exec"} />;
}
