/** What stands in place of a list that has nothing to show: why. */
import type { ReactNode } from "react";
import type { KindRows } from "../live/store.ts";
import { texts } from "../texts.ts";

interface ListStateProps {
  readonly state: KindRows<"set"> | KindRows<"machine"> | KindRows<"node">;
  readonly empty: boolean;
  readonly none: string;
  readonly children: ReactNode;
}

export function ListState({ state, empty, none, children }: ListStateProps): ReactNode {
  if (state.denied !== "")
    return (
      <div className="error" role="alert">
        <strong>{texts.list.denied}</strong> {state.denied} {texts.list.deniedHint}
      </div>
    );
  if (!state.synced && state.rows.size === 0) return <p aria-busy="true">{texts.list.loading}</p>;
  return empty ? <p>{none}</p> : children;
}
