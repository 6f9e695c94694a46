/** What cannot be watched is asked for every few seconds, while the page that shows it is open. */
import { useEffect, useRef, useState } from "react";

export interface Polled<T> {
  /** The newest answer; it stays while later ones fail. */
  readonly data: T | undefined;
  readonly error: string;
}

const everyMs = 15_000;

export function usePolled<T>(ask: () => Promise<T>): Polled<T> {
  const [polled, setPolled] = useState<Polled<T>>({ data: undefined, error: "" });
  const latest = useRef(ask);
  useEffect(() => {
    let isCurrent = true;
    const again = () => {
      latest.current().then(
        (data) => isCurrent && setPolled({ data, error: "" }),
        (failure: unknown) => {
          const error = failure instanceof Error ? failure.message : String(failure);
          if (isCurrent) setPolled((before) => ({ ...before, error }));
        },
      );
    };
    again();
    const timer = setInterval(again, everyMs);
    return () => {
      isCurrent = false;
      clearInterval(timer);
    };
  }, []);
  return polled;
}
