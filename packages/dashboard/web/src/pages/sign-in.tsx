/** Signing in: with a token, or with the code of a one-time link, which stands in the address after `#`. */
import { useState, type FormEvent, type ReactNode } from "react";
import { session } from "../api/client.ts";
import { ErrorBox } from "../parts/small.tsx";
import { navigate } from "../route.ts";
import { texts } from "../texts.ts";

function readCode(): string {
  const { pathname, hash } = globalThis.location;
  return pathname === "/link" ? hash.slice(1) : "";
}

export function SignInPage({ onSignedIn }: { readonly onSignedIn: () => void }): ReactNode {
  const [code, setCode] = useState(readCode);
  const [token, setToken] = useState("");
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setError("");
    const request = code === "" ? session.signIn(token.trim()) : session.redeem(code);
    // A code works once: it must not stay in the history.
    if (code !== "") navigate("/");
    request.then(onSignedIn, (failure: unknown) => {
      setBusy(false);
      setCode("");
      setError(failure instanceof Error ? failure.message : String(failure));
    });
  };
  return (
    <main className="sign-in">
      <form onSubmit={submit}>
        <h1>{code === "" ? texts.signIn.title : texts.signIn.linkTitle}</h1>
        {code === "" ? (
          <>
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
          </>
        ) : (
          <p>{texts.signIn.linkQuestion}</p>
        )}
        <ErrorBox message={error} />
        <button type="submit" className="main" disabled={busy}>
          {busy ? texts.signIn.busy : code === "" ? texts.signIn.submit : texts.signIn.linkSubmit}
        </button>
      </form>
    </main>
  );
}
