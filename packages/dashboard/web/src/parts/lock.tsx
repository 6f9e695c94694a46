/** What the user may not do is not hidden: it is locked, and says which right is missing. */
import { useId, type ReactNode } from "react";
import { describeRight, useRights, type Right, type RightsVerdict } from "../api/rights.ts";
import { texts } from "../texts.ts";
import { usePage } from "./context.ts";

export interface Lock {
  readonly isLocked: boolean;
  readonly reason: string;
  /** The reason is shown, and not only told to screen readers. */
  readonly isFinal: boolean;
}

function explainVerdict({ verdict, missing }: RightsVerdict): string {
  if (missing) return texts.action.notAllowed(describeRight(missing));
  if (verdict === "asking") return texts.action.checking;
  return verdict === "unknown" ? texts.action.unknown : "";
}

/** For what changes something, or may: in read-only mode it is locked whatever the rights are. */
export function useLock(rights: readonly Right[], { reads = false } = {}): Lock {
  const { me } = usePage();
  const isReadOnly = me.readOnly && !reads;
  const answer = useRights(isReadOnly ? [] : rights);
  if (isReadOnly) return { isLocked: true, reason: texts.action.readOnly, isFinal: true };
  const { verdict } = answer;
  // An unknown answer locks nothing: the API server decides when the button is pressed.
  const isLocked = verdict === "denied" || verdict === "asking";
  return { isLocked, reason: explainVerdict(answer), isFinal: verdict === "denied" };
}

interface LockedButtonProps {
  readonly rights: readonly Right[];
  readonly onPress: () => void;
  readonly danger?: boolean;
  readonly disabled?: boolean;
  readonly children: ReactNode;
}

export function LockedButton({
  rights,
  onPress,
  danger = false,
  disabled = false,
  children,
}: LockedButtonProps): ReactNode {
  const { isLocked, reason, isFinal } = useLock(rights);
  const reasonId = useId();
  return (
    <>
      <button
        type="button"
        className={danger ? "danger" : undefined}
        disabled={disabled}
        aria-disabled={isLocked}
        aria-describedby={reason === "" ? undefined : reasonId}
        title={reason === "" ? undefined : reason}
        onClick={() => !isLocked && onPress()}
      >
        {children}
      </button>
      {reason === "" ? null : (
        <span id={reasonId} className={isFinal ? "reason" : "hidden"}>
          {reason}
        </span>
      )}
    </>
  );
}

interface NeedsRightProps {
  readonly right: Right;
  /** It shows and changes nothing. */
  readonly reads?: boolean;
  readonly children: ReactNode;
}

/** A view that would fail without the right says so instead. */
export function NeedsRight({ right, reads = false, children }: NeedsRightProps): ReactNode {
  const { isFinal, reason } = useLock([right], { reads });
  if (!isFinal) return children;
  return (
    <p className="reason" role="status">
      {reason}
    </p>
  );
}
