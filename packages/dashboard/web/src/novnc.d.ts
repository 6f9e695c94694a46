/** What this page uses of noVNC, which brings no types. */
declare module "@novnc/novnc" {
  /** What it needs of a WebSocket, or of another channel. */
  export interface RawChannel {
    send(bytes: Uint8Array): void;
    close(): void;
    binaryType: string;
    protocol: string;
    readyState: string;
    onopen: (() => void) | null;
    onmessage: ((event: { readonly data: ArrayBuffer }) => void) | null;
    onclose: ((event: { readonly code: number; readonly reason: string }) => void) | null;
    onerror: (() => void) | null;
  }

  export default class RFB extends EventTarget {
    constructor(place: HTMLElement, channel: RawChannel, options?: { readonly shared?: boolean });
    scaleViewport: boolean;
    viewOnly: boolean;
    background: string;
    sendCtrlAltDel(): void;
    sendKey(keysym: number, code: string, down?: boolean): void;
    clipboardPasteFrom(text: string): void;
    disconnect(): void;
    focus(): void;
  }
}
