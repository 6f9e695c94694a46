/** Why there is no answer from the API server: which server, why, and what to look at. Always "could not ask". */
import { Fault, messageOf, systemCode } from "@cocoon/core";

/** What the target of a connection is called in messages. */
export interface TargetNames {
  /** `https://127.0.0.1:6443` */
  readonly server: string;
  /** `context "x" of /home/me/.kube/config` */
  readonly source: string;
  /** The fields of that file that hold the server's address and its CA. */
  readonly serverField: string;
  readonly caField: string;
}

type Explain = (names: TargetNames, error: unknown) => string;

const untrusted: Explain = ({ caField }) =>
  `its certificate is not signed by the CA in ${caField}; put the CA of that cluster there`;
const unresolved: Explain = ({ serverField }) => `the host name does not resolve; check ${serverField}`;
const silent: Explain = ({ serverField }) =>
  `it does not answer; check ${serverField}, the network and proxies`;
const cut: Explain = () => "the connection was cut before the answer was complete";

const explanations: Readonly<Record<string, Explain>> = {
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: untrusted,
  UNABLE_TO_GET_ISSUER_CERT: untrusted,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: untrusted,
  SELF_SIGNED_CERT_IN_CHAIN: untrusted,
  DEPTH_ZERO_SELF_SIGNED_CERT: untrusted,
  CERT_SIGNATURE_FAILURE: untrusted,
  CERT_UNTRUSTED: untrusted,
  CERT_HAS_EXPIRED: () => "its certificate has expired; renew the server's certificate",
  CERT_NOT_YET_VALID: () => "its certificate is not valid yet; compare the clocks of both machines",
  ERR_TLS_CERT_ALTNAME_INVALID: ({ serverField }, error) =>
    `${messageOf(error)}; use a name that the certificate has in ${serverField}, or set tls-server-name`,
  ECONNREFUSED: ({ serverField }) => `connection refused; is it running, and is ${serverField} right?`,
  ENOTFOUND: unresolved,
  EAI_AGAIN: unresolved,
  UND_ERR_CONNECT_TIMEOUT: silent,
  ETIMEDOUT: silent,
  EHOSTUNREACH: silent,
  ENETUNREACH: silent,
  UND_ERR_SOCKET: cut,
  ECONNRESET: cut,
  EPIPE: cut,
};

export function faultOfConnection(error: unknown, names: TargetNames): Fault {
  const explain = explanations[systemCode(error) ?? ""];
  const reason = explain ? explain(names, error) : messageOf(error);
  const message = `cannot talk to the API server ${names.server} (${names.source}): ${reason}`;
  return new Fault("unavailable", message, { cause: error });
}

/** The connection ended while an answer was awaited: a restarted server, or a kept-alive connection that was stale. */
export function isCut(error: unknown): boolean {
  return explanations[systemCode(error) ?? ""] === cut;
}
