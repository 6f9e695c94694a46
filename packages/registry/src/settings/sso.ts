/** Login of people, from the variables that epoch documents. */
import { Fault } from "@cocoon/core";
import type { SsoOptions } from "../auth/sso.ts";
import type { ServeConfig } from "../config.ts";

type Draft = { readonly [K in keyof SsoOptions]: SsoOptions[K] | undefined };

const variables = {
  clientId: "CLIENT_ID",
  clientSecret: "CLIENT_SECRET",
  redirectUri: "REDIRECT_URI",
  authorizeUrl: "AUTHORIZE_URL",
  tokenUrl: "TOKEN_URL",
  userinfoUrl: "USERINFO_URL",
} as const satisfies Partial<Record<keyof SsoOptions, string>>;

/** Undefined when nothing about login is configured; a half configured one is an error, not an open door. */
export function readSso(config: ServeConfig): SsoOptions | undefined {
  const provider = config.ssoProvider ?? detected(config);
  if (provider === undefined) return undefined;
  if (provider !== "google" && provider !== "oidc")
    throw new Fault("invalid", `SSO_PROVIDER is "${provider}"; use google or oidc`);
  const draft = provider === "google" ? googleDraft(config) : oidcDraft(config);
  const missing = Object.entries(variables).filter(([key]) => !draft[key as keyof typeof variables]);
  if (missing.length > 0) {
    const names = missing.map(([key, name]) => `${ofGoogle(provider, key) ? "GOOGLE_OAUTH" : "SSO"}_${name}`);
    throw new Fault("invalid", `login by ${provider} also needs ${names.join(", ")}`);
  }
  return draft as SsoOptions;
}

function detected(config: ServeConfig): "google" | "oidc" | undefined {
  if (config.googleClientId) return "google";
  return config.ssoClientId ? "oidc" : undefined;
}

function ofGoogle(provider: string, key: string): boolean {
  return provider === "google" && !key.endsWith("Url");
}

function oidcDraft(config: ServeConfig): Draft {
  return {
    provider: "oidc",
    clientId: config.ssoClientId,
    clientSecret: config.ssoClientSecret,
    redirectUri: config.ssoRedirectUri,
    authorizeUrl: config.ssoAuthorizeUrl,
    tokenUrl: config.ssoTokenUrl,
    userinfoUrl: config.ssoUserinfoUrl,
    logoutUrl: config.ssoLogoutUrl,
    scopes: config.ssoScopes,
    allowedDomains: config.googleHostedDomain,
  };
}

function googleDraft(config: ServeConfig): Draft {
  return {
    ...oidcDraft(config),
    provider: "google",
    clientId: config.googleClientId,
    clientSecret: config.googleClientSecret,
    redirectUri: config.googleRedirectUri,
    authorizeUrl: config.ssoAuthorizeUrl ?? "https://accounts.google.com/o/oauth2/v2/auth",
    tokenUrl: config.ssoTokenUrl ?? "https://oauth2.googleapis.com/token",
    userinfoUrl: config.ssoUserinfoUrl ?? "https://openidconnect.googleapis.com/v1/userinfo",
  };
}
