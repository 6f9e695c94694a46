/** Small parts: links, badges, errors, commands to copy. */
import { useState, type MouseEvent, type ReactNode } from "react";
import { navigate } from "../route.ts";
import { texts } from "../texts.ts";

interface LinkProps {
  readonly to: string;
  readonly children: ReactNode;
  readonly current?: boolean;
  readonly className?: string;
}

export function Link({ to, children, current = false, className }: LinkProps): ReactNode {
  const onClick = (event: MouseEvent) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
    event.preventDefault();
    navigate(to);
  };
  return (
    <a href={to} onClick={onClick} className={className} aria-current={current ? "page" : undefined}>
      {children}
    </a>
  );
}

const tones: Readonly<Record<string, string>> = {
  ready: "good",
  Running: "good",
  asleep: "calm",
  Suspended: "calm",
  failed: "bad",
  Failed: "bad",
  "not ready": "warn",
  unknown: "warn",
};

export function Badge({ text }: { readonly text: string }): ReactNode {
  return <span className={`badge ${tones[text] ?? "busy"}`}>{text}</span>;
}

export function ErrorBox({
  message,
  onRetry,
}: {
  readonly message: string;
  readonly onRetry?: () => void;
}): ReactNode {
  if (message === "") return null;
  return (
    <div className="error" role="alert">
      <strong>{texts.error.title}:</strong> {message}{" "}
      {onRetry ? (
        <button type="button" onClick={onRetry}>
          {texts.error.retry}
        </button>
      ) : null}
    </div>
  );
}

export function CommandText({
  command,
  label = texts.action.same,
}: {
  readonly command: string;
  readonly label?: string;
}): ReactNode {
  const [copied, setCopied] = useState(false);
  const copy = () => {
    void navigator.clipboard.writeText(command).then(() => setCopied(true));
  };
  return (
    <div className="command">
      <span>{label}</span>
      <code>{command}</code>
      <button type="button" onClick={copy}>
        {copied ? texts.action.copied : texts.action.copy}
      </button>
    </div>
  );
}

export function Facts({
  facts,
}: {
  readonly facts: readonly (readonly [label: string, value: ReactNode])[];
}): ReactNode {
  return (
    <dl className="facts">
      {facts
        .filter(([, value]) => value !== "" && value !== undefined)
        .map(([label, value]) => (
          <div key={label}>
            <dt>{label}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}

/** A few numbers that matter, large. */
export function Figures({
  figures,
}: {
  readonly figures: readonly (readonly [label: string, value: string])[];
}): ReactNode {
  return (
    <dl className="figures">
      {figures.map(([label, value]) => (
        <div key={label}>
          <dt>{label}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
