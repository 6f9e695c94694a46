/** The line above every page: where to go, what is shown, who is signed in. */
import { useState, type FormEvent, type ReactNode } from "react";
import type { Me } from "../../../src/shared/rows.ts";
import { useConnection } from "../live/store.ts";
import { useRoute } from "../route.ts";
import { texts } from "../texts.ts";
import { usePage } from "./context.ts";
import { Link } from "./small.tsx";
import { switchTheme } from "./theme.ts";

interface HeaderProps {
  readonly namespace: string;
  readonly onNamespace: (namespace: string) => void;
  readonly onSignOut: () => void;
}

const pages = ["sets", "machines", "nodes", "registry", "health", "create"] as const;

function isOffered(page: (typeof pages)[number], me: Me): boolean {
  if (page === "create") return !me.readOnly;
  if (page === "registry") return me.hasRegistry;
  return page !== "health" || me.hasHealth;
}

export function Header({ namespace, onNamespace, onSignOut }: HeaderProps): ReactNode {
  const { me, store } = usePage();
  const [current = "sets"] = useRoute();
  const connection = useConnection(store);
  return (
    <header>
      <Link to="/" className="brand">
        {texts.product}
      </Link>
      <nav aria-label={texts.nav.label}>
        {pages
          .filter((page) => isOffered(page, me))
          .map((page) => (
            <Link key={page} to={`/${page}`} current={page === current}>
              {texts.nav[page]}
            </Link>
          ))}
      </nav>
      <NamespaceField value={namespace} onChange={onNamespace} />
      <span className={`live ${connection}`} role="status">
        {texts.live[connection]}
      </span>
      <span className="user" title={texts.nav.signedInAs(me.user, me.version)}>
        {me.user.replace(/^system:serviceaccount:/, "")}
      </span>
      <button type="button" aria-label={texts.nav.theme} title={texts.nav.theme} onClick={switchTheme}>
        ◐
      </button>
      <button type="button" onClick={onSignOut}>
        {texts.nav.signOut}
      </button>
    </header>
  );
}

function NamespaceField({
  value,
  onChange,
}: {
  readonly value: string;
  readonly onChange: (value: string) => void;
}): ReactNode {
  const [draft, setDraft] = useState(value);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    onChange(draft.trim());
  };
  return (
    <form onSubmit={submit}>
      <input
        aria-label={texts.nav.namespace}
        placeholder={texts.nav.allNamespaces}
        pattern="[a-z0-9]([\-a-z0-9]{0,61}[a-z0-9])?"
        value={draft}
        onChange={(event) => setDraft(event.target.value)}
        onBlur={(event) => event.target.checkValidity() && onChange(draft.trim())}
        size={16}
      />
    </form>
  );
}
