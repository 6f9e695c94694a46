/**
 * Signing in: with a token, with the code of a one-time link, which stands in the address after `#`, or at an OpenID Connect
 * provider, which sends the browser back to /oidc.
 */
import { useEffect, useState, type FormEvent, type ReactNode } from "react";
import { session } from "../api/client.ts";
import { ErrorBox } from "../parts/small.tsx";
import { navigate } from "../route.ts";
import { texts } from "../texts.ts";

interface SignInProps {
  readonly onSignedIn: () => void;
}

export function SignInPage({ onSignedIn }: SignInProps): ReactNode {
  const [arrival] = useState(readArrival);
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const attempt = (request: Promise<unknown>) => {
    setBusy(true);
    setError("");
    request.then(onSignedIn, (failure: unknown) => {
      setBusy(false);
      setError(failure instanceof Error ? failure.message : String(failure));
    });
  };
  const form = { attempt, busy, error };
  if (arrival.kind === "link") return <LinkForm code={arrival.code} {...form} />;
  if (arrival.kind === "oidc") return <OidcReturn {...arrival} {...form} />;
  return <TokenForm {...form} />;
}

type Arrival =
  | { readonly kind: "plain" }
  | { readonly kind: "link"; readonly code: string }
  | { readonly kind: "oidc"; readonly code: string; readonly state: string; readonly refusal: string };

/** What the address says about how the browser came here. */
function readArrival(): Arrival {
  const { pathname, hash, search } = globalThis.location;
  if (pathname === "/link" && hash.length > 1) return { kind: "link", code: hash.slice(1) };
  if (pathname !== "/oidc") return { kind: "plain" };
  const query = new URLSearchParams(search);
  const read = (name: string) => query.get(name) ?? "";
  return {
    kind: "oidc",
    code: read("code"),
    state: read("state"),
    refusal: read("error_description") || read("error"),
  };
}

interface FormProps {
  readonly attempt: (request: Promise<unknown>) => void;
  readonly busy: boolean;
  readonly error: string;
}

function LinkForm({ code, attempt, busy, error }: FormProps & { readonly code: string }): ReactNode {
  const [used, setUsed] = useState(false);
  if (used && error !== "") return <TokenForm attempt={attempt} busy={busy} error={error} />;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    setUsed(true);
    // A code works once: it must not stay in the history.
    navigate("/");
    attempt(session.redeem(code));
  };
  return (
    <main className="sign-in">
      <form onSubmit={submit}>
        <h1>{texts.signIn.linkTitle}</h1>
        <p>{texts.signIn.linkQuestion}</p>
        <button type="submit" className="main" disabled={busy}>
          {busy ? texts.signIn.busy : texts.signIn.linkSubmit}
        </button>
      </form>
    </main>
  );
}

interface OidcReturnProps extends FormProps {
  readonly code: string;
  readonly state: string;
  readonly refusal: string;
}

function OidcReturn({ code, state, refusal, attempt, busy, error }: OidcReturnProps): ReactNode {
  const [failure, setFailure] = useState("");
  useEffect(() => {
    navigate("/");
    if (code === "") setFailure(refusal || texts.signIn.oidcNoCode);
    else attempt(session.finishOidc(code, state));
    // oxlint-disable-next-line react-hooks/exhaustive-deps -- a code works once
  }, []);
  if (failure !== "" || error !== "")
    return <TokenForm attempt={attempt} busy={busy} error={failure || error} />;
  return (
    <main className="sign-in">
      <p role="status">{texts.signIn.busy}</p>
    </main>
  );
}

function TokenForm({ attempt, busy, error }: FormProps): ReactNode {
  const [token, setToken] = useState("");
  const submit = (event: FormEvent) => {
    event.preventDefault();
    attempt(session.signIn(token.trim()));
  };
  return (
    <main className="sign-in">
      <form onSubmit={submit}>
        <h1>{texts.signIn.title}</h1>
        <OidcButton />
        <label>
          {texts.signIn.token}
          <input
            type="password"
            autoComplete="off"
            required
            value={token}
            onChange={(event) => setToken(event.target.value)}
            aria-describedby="token-help"
          />
        </label>
        <p id="token-help">{texts.signIn.tokenHelp}</p>
        <p>{texts.signIn.local}</p>
        <ErrorBox message={error} />
        <button type="submit" className="main" disabled={busy}>
          {busy ? texts.signIn.busy : texts.signIn.submit}
        </button>
      </form>
    </main>
  );
}

/** Only where a provider is configured. */
function OidcButton(): ReactNode {
  const [provider, setProvider] = useState("");
  const [error, setError] = useState("");
  useEffect(() => {
    session.methods().then(
      ({ oidc }) => setProvider(oidc),
      () => undefined, // the token field works without
    );
  }, []);
  if (provider === "") return null;
  const open = () => {
    setError("");
    session.startOidc().then(
      ({ url }) => globalThis.location.assign(url),
      (failure: unknown) => setError(failure instanceof Error ? failure.message : String(failure)),
    );
  };
  return (
    <>
      <button type="button" className="main" onClick={open}>
        {texts.signIn.oidc(provider)}
      </button>
      <ErrorBox message={error} />
      <p className="or">{texts.signIn.or}</p>
    </>
  );
}
