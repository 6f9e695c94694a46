/**
 * What replicas share about their certificates: tls.crt and tls.key, ca.crt (authorities, newest first), ca.key of the newest,
 * and a note (JSON) with the progress of a rotation. The phase follows from the signer of tls.crt (rotation-plan.ts).
 */
import { Fault } from "@cocoon/core";
import { createPrivateKey, X509Certificate } from "node:crypto";
import * as z from "zod";
import { certificateId, isIssuedBy, joinBundle, splitBundle } from "./pem.ts";
import { readPair, type ServingPair } from "./serving-certificates.ts";

const noteSchema = z.object({
  issuedAtMs: z.number().default(0),
  /** By authority: since when it has been seen wherever it must be trusted. */
  trusted: z.record(z.string(), z.number()).default({}),
  /** By replica: the authority behind what it serves, and when it last reported it. */
  replicas: z.record(z.string(), z.object({ authority: z.string(), seenMs: z.number() })).default({}),
});

type RotationNote = Readonly<z.output<typeof noteSchema>>;

const emptyNote: RotationNote = { issuedAtMs: 0, trusted: {}, replicas: {} };

export interface RotationState {
  /** PEM, newest first; never empty. */
  readonly authorities: readonly [string, ...string[]];
  readonly authorityKey: string;
  readonly pair: ServingPair;
  readonly note: RotationNote;
}

export interface StoredContent {
  readonly data: Readonly<Record<string, string>>;
  readonly note: string;
}

export function writeState({ authorities, authorityKey, pair, note }: RotationState): StoredContent {
  return {
    data: {
      "ca.crt": joinBundle(authorities),
      "ca.key": authorityKey,
      "tls.crt": pair.certificate,
      "tls.key": pair.privateKey,
    },
    note: JSON.stringify(note),
  };
}

/** Undefined when nothing is there yet; an `invalid` fault when what is there cannot be used. */
export function readState({ data, note }: StoredContent): RotationState | undefined {
  const { "ca.crt": bundle, "ca.key": authorityKey, "tls.crt": certificate, "tls.key": key } = data;
  if (!bundle && !authorityKey && !certificate && !key) return undefined;
  if (!bundle || !authorityKey || !certificate || !key)
    throw new Fault("invalid", "tls.crt, tls.key, ca.crt and ca.key must be there together");
  const [newest, ...older] = splitBundle(bundle);
  if (newest === undefined) throw new Fault("invalid", "ca.crt holds no certificate");
  checkAuthority(newest, authorityKey);
  return {
    authorities: [newest, ...older],
    authorityKey,
    pair: readPair(certificate, key),
    note: readNote(note),
  };
}

/** A certificate that another program renews: it has no authority key, and it is not ours to overwrite. */
export function isKeptByAnother({ data }: StoredContent): boolean {
  return Boolean(data["tls.crt"]) && !data["ca.key"];
}

function checkAuthority(certificate: string, key: string): void {
  let belongs: boolean;
  try {
    belongs = new X509Certificate(certificate).checkPrivateKey(createPrivateKey(key));
  } catch {
    throw new Fault("invalid", "ca.crt or ca.key cannot be read");
  }
  if (!belongs) throw new Fault("invalid", "ca.key does not belong to the first certificate of ca.crt");
}

/** A note that was damaged only costs time: replicas report again, a bundle is looked at again. */
function readNote(text: string): RotationNote {
  try {
    return noteSchema.parse(JSON.parse(text === "" ? "{}" : text));
  } catch {
    return emptyNote;
  }
}

/** Which of the authorities signed the pair; -1 when none did. */
export function signerIndex(authorities: readonly string[], pair: ServingPair): number {
  return authorities.findIndex((authority) => isIssuedBy(pair.certificate, authority));
}

/** Id of the authority behind the pair; empty when it is none of these. */
export function signerId(authorities: readonly string[], pair: ServingPair): string {
  const signer = authorities[signerIndex(authorities, pair)];
  return signer === undefined ? "" : certificateId(signer);
}
