/** The registry: who sleeps in it, how much room that takes, and which tokens open it. */
import { useMemo, useState, type ReactNode } from "react";
import type { MachineRow, RegistryData, RepositoryRow, SetRow, TokenRow } from "../../../src/shared/rows.ts";
import { session } from "../api/client.ts";
import { usePolled } from "../api/use-polled.ts";
import { formatAge, formatBytes } from "../format.ts";
import { listMachines } from "../live/machines.ts";
import { useKind } from "../live/store.ts";
import { usePage } from "../parts/context.ts";
import { Badge, ErrorBox, Figures, Link } from "../parts/small.tsx";
import { buildPath } from "../route.ts";
import { texts } from "../texts.ts";

const shownRows = 500;

export function RegistryPage(): ReactNode {
  const { data, error } = usePolled(session.registry);
  return (
    <section>
      <h1>{texts.nav.registry}</h1>
      <ErrorBox message={error} />
      {data ? <RegistryView data={data} /> : error === "" ? <p>{texts.list.loading}</p> : null}
    </section>
  );
}

function RegistryView({ data }: { readonly data: RegistryData }): ReactNode {
  const { store } = usePage();
  const pods = useKind(store, "machine").rows;
  const sets = useKind(store, "set").rows;
  const owners = useMemo(() => listOwners(listMachines(pods, sets), [...sets.values()]), [pods, sets]);
  const asleep = data.repositories.filter(
    ({ name, hibernated }) => hibernated || owners.get(name)?.state === "asleep",
  );
  const others = data.repositories.filter((each) => !asleep.includes(each));
  // Both are asked for one after the other, while snapshots come and go.
  const ratio = data.storedBytes > 0 ? Math.max(1, data.totalBytes / data.storedBytes) : undefined;
  return (
    <>
      <Figures
        figures={[
          [texts.registry.asleep, String(asleep.length)],
          [texts.registry.stored, data.storedBytes > 0 ? formatBytes(data.storedBytes) : "–"],
          [texts.registry.total, formatBytes(data.totalBytes)],
          [texts.registry.ratio, ratio === undefined ? "–" : `${ratio.toFixed(2)} : 1`],
          [texts.registry.blobs, String(data.blobs)],
        ]}
      />
      <h2>{texts.registry.sleeping}</h2>
      <RepositoryTable rows={asleep} owners={owners} none={texts.registry.noneAsleep} />
      <h2>{texts.registry.others}</h2>
      <RepositoryTable rows={others} owners={owners} none={texts.list.none} />
      <h2>{texts.registry.tokens}</h2>
      <TokenTable tokens={data.tokens} />
    </>
  );
}

/** What a repository belongs to: a machine, or where that has no pod and no place, its set. */
interface Owner {
  readonly path: string;
  readonly state: string;
}

function listOwners(machines: readonly MachineRow[], sets: readonly SetRow[]): Map<string, Owner> {
  const owners = new Map<string, Owner>();
  for (const { namespace, name, replicas, phase } of sets)
    for (let slot = 0; slot <= replicas; slot += 1)
      owners.set(`vk-${namespace}-${name}-${slot}`, {
        path: buildPath("sets", namespace, name),
        state: phase === "Suspended" ? "asleep" : "pending",
      });
  for (const { namespace, name, vmName, state } of machines)
    if (vmName !== "") owners.set(vmName, { path: buildPath("machines", namespace, name), state });
  return owners;
}

interface RepositoryProps {
  readonly rows: readonly RepositoryRow[];
  readonly owners: ReadonlyMap<string, Owner>;
  readonly none: string;
}

/** By size, and of the same size by age. */
function RepositoryTable({ rows, owners, none }: RepositoryProps): ReactNode {
  const [order, setOrder] = useState<"bytes" | "updatedAt">("bytes");
  const sorted = useMemo(
    () =>
      rows
        .toSorted((left, right) =>
          order === "bytes" ? right.bytes - left.bytes : left.updatedAt < right.updatedAt ? -1 : 1,
        )
        .slice(0, shownRows),
    [rows, order],
  );
  if (rows.length === 0) return <p>{none}</p>;
  return (
    <table>
      <thead>
        <tr>
          <th>{texts.column.name}</th>
          <th>{texts.column.state}</th>
          <th>{texts.registry.kind}</th>
          <th aria-sort={order === "bytes" ? "descending" : undefined}>
            <button type="button" className="plain" onClick={() => setOrder("bytes")}>
              {texts.files.size}
            </button>
          </th>
          <th>{texts.registry.quota}</th>
          <th aria-sort={order === "updatedAt" ? "ascending" : undefined}>
            <button type="button" className="plain" onClick={() => setOrder("updatedAt")}>
              {texts.column.age}
            </button>
          </th>
          <th>{texts.registry.tags}</th>
        </tr>
      </thead>
      <tbody>
        {sorted.map((row) => (
          <RepositoryLine key={row.name} row={row} owner={owners.get(row.name)} />
        ))}
      </tbody>
    </table>
  );
}

function RepositoryLine({
  row,
  owner,
}: {
  readonly row: RepositoryRow;
  readonly owner: Owner | undefined;
}): ReactNode {
  const state = row.hibernated ? "asleep" : owner?.state;
  return (
    <tr>
      <td>{owner ? <Link to={owner.path}>{row.name}</Link> : row.name}</td>
      <td>{state === undefined ? texts.registry.noMachine : <Badge text={state} />}</td>
      <td>{row.kind}</td>
      <td>{formatBytes(row.bytes)}</td>
      <td>
        {row.quotaBytes > 0 ? (
          <>
            <meter aria-label={texts.registry.quota} max={row.quotaBytes} value={row.bytes} />{" "}
            {formatBytes(row.quotaBytes)}
          </>
        ) : (
          texts.registry.noQuota
        )}
      </td>
      <td>{formatAge(row.updatedAt)}</td>
      <td>{row.tags}</td>
    </tr>
  );
}

function TokenTable({ tokens }: { readonly tokens: readonly TokenRow[] | undefined }): ReactNode {
  if (tokens === undefined) return <p>{texts.registry.tokensHidden}</p>;
  if (tokens.length === 0) return <p>{texts.registry.noTokens}</p>;
  return (
    <table>
      <thead>
        <tr>
          <th>{texts.column.name}</th>
          <th>{texts.registry.scopes}</th>
          <th>{texts.registry.createdBy}</th>
          <th>{texts.registry.lastUsed}</th>
          <th>{texts.registry.expires}</th>
        </tr>
      </thead>
      <tbody>
        {tokens.map((token) => (
          <tr key={token.id}>
            <td>{token.name}</td>
            <td>{token.scopes.join(", ")}</td>
            <td>{token.createdBy}</td>
            <td>{token.lastUsed === "" ? texts.registry.never : formatAge(token.lastUsed)}</td>
            <td>
              {token.expiresAt === "" ? texts.registry.never : new Date(token.expiresAt).toLocaleDateString()}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
