/** Signed in or not; and which page is shown. */
import { useCallback, useEffect, useState, type ReactNode } from "react";
import type { Me } from "../../src/shared/rows.ts";
import { ApiError, session, signedOutEvent } from "./api/client.ts";
import { forgetRights } from "./api/rights.ts";
import { useLiveStore } from "./live/store.ts";
import { CreatePage } from "./pages/create.tsx";
import { HealthPage } from "./pages/health.tsx";
import { MachinePage } from "./pages/machine.tsx";
import { MachinesPage } from "./pages/machines.tsx";
import { NodesPage } from "./pages/nodes.tsx";
import { RegistryPage } from "./pages/registry.tsx";
import { SetPage } from "./pages/set.tsx";
import { SetsPage } from "./pages/sets.tsx";
import { SignInPage } from "./pages/sign-in.tsx";
import { PageProvider } from "./parts/context.ts";
import { Header } from "./parts/header.tsx";
import { ErrorBox } from "./parts/small.tsx";
import { useRoute } from "./route.ts";
import { texts } from "./texts.ts";

type SignInState =
  | { readonly kind: "asking" | "out" }
  | { readonly kind: "in"; readonly me: Me }
  | { readonly kind: "failed"; readonly message: string };

export function App(): ReactNode {
  const [state, setState] = useState<SignInState>({ kind: "asking" });
  const ask = useCallback(() => {
    session.me().then(
      (me) => setState({ kind: "in", me }),
      (error: unknown) =>
        setState(
          error instanceof ApiError && error.status === 401
            ? { kind: "out" }
            : { kind: "failed", message: error instanceof Error ? error.message : String(error) },
        ),
    );
  }, []);
  useEffect(() => {
    const onSignedOut = () => setState({ kind: "out" });
    globalThis.addEventListener(signedOutEvent, onSignedOut);
    ask();
    return () => globalThis.removeEventListener(signedOutEvent, onSignedOut);
  }, [ask]);
  if (state.kind === "in") return <SignedIn me={state.me} onSignOut={() => setState({ kind: "out" })} />;
  if (state.kind === "out") return <SignInPage onSignedIn={ask} />;
  return state.kind === "failed" ? (
    <ErrorBox message={state.message} onRetry={ask} />
  ) : (
    <p>{texts.list.loading}</p>
  );
}

const namespaceKey = "cocoon-namespace";

function SignedIn({ me, onSignOut }: { readonly me: Me; readonly onSignOut: () => void }): ReactNode {
  const [namespace, setNamespace] = useState(() => localStorage.getItem(namespaceKey) ?? "");
  const store = useLiveStore(namespace === "" ? "" : `?namespace=${encodeURIComponent(namespace)}`);
  const choose = (next: string) => {
    localStorage.setItem(namespaceKey, next);
    setNamespace(next);
  };
  const signOut = () => {
    forgetRights();
    void session.signOut().then(onSignOut, onSignOut);
  };
  return (
    <PageProvider value={{ me, store, namespace }}>
      <a className="skip" href="#content">
        {texts.nav.skip}
      </a>
      <Header namespace={namespace} onNamespace={choose} onSignOut={signOut} />
      <main id="content" tabIndex={-1}>
        {me.readOnly ? <p className="notice">{texts.readOnly}</p> : null}
        <Page />
      </main>
    </PageProvider>
  );
}

function Page(): ReactNode {
  const [page = "sets", namespace = "", name = "", view = ""] = useRoute();
  if (page === "sets")
    return name === "" ? <SetsPage /> : <SetPage key={`${namespace}/${name}`} {...{ namespace, name }} />;
  if (page === "machines")
    return name === "" ? (
      <MachinesPage />
    ) : (
      <MachinePage key={`${namespace}/${name}`} {...{ namespace, name, view }} />
    );
  if (page === "nodes") return <NodesPage />;
  if (page === "registry") return <RegistryPage />;
  if (page === "health") return <HealthPage />;
  return page === "create" ? <CreatePage /> : <SetsPage />;
}
