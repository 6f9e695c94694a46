/** What the registry keeps of a set: what its machines sleep in, and what they left behind. */
import { useEffect, useState, type ReactNode } from "react";
import type { SetRow, SnapshotRow } from "../../../src/shared/rows.ts";
import { session } from "../api/client.ts";
import { formatAge, formatBytes, shortDigest } from "../format.ts";
import { texts } from "../texts.ts";

const shownSnapshots = 50;

export function SetSnapshots({ set }: { readonly set: SetRow }): ReactNode {
  const { namespace, name, phase } = set;
  const [found, setFound] = useState<readonly SnapshotRow[]>();
  const [error, setError] = useState("");
  useEffect(() => {
    void phase; // what is kept changes when the set does
    let isCurrent = true;
    session.snapshots(namespace, name).then(
      (rows) => {
        if (!isCurrent) return;
        setFound(rows);
        setError("");
      },
      (failure: unknown) =>
        isCurrent && setError(failure instanceof Error ? failure.message : String(failure)),
    );
    return () => {
      isCurrent = false;
    };
  }, [namespace, name, phase]);
  if (error !== "") return <p className="reason">{error}</p>;
  if (!found) return <p>{texts.list.loading}</p>;
  if (found.length === 0) return <p>{texts.set.noSnapshots}</p>;
  return (
    <table>
      <thead>
        <tr>
          <th>{texts.column.machine}</th>
          <th>{texts.column.tag}</th>
          <th>{texts.files.size}</th>
          <th>{texts.column.age}</th>
          <th>{texts.column.digest}</th>
        </tr>
      </thead>
      <tbody>
        {found.slice(0, shownSnapshots).map((row) => (
          <tr key={`${row.machine}:${row.tag}`}>
            <td>{row.machine}</td>
            <td>{row.tag}</td>
            <td>{formatBytes(row.bytes)}</td>
            <td>{formatAge(row.pushedAt)}</td>
            <td>
              <code>{shortDigest(row.digest)}</code>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
