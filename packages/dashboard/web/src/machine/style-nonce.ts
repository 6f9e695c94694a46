/**
 * The terminal makes style elements. The page's policy refuses those without the nonce of this answer, so each gets it: nothing
 * else of this page makes any, and what a machine writes never becomes an element.
 */
let isDone = false;

export function allowTerminalStyles(): void {
  const nonce = document.querySelector<HTMLMetaElement>('meta[name="style-nonce"]')?.content;
  if (isDone || !nonce) return;
  isDone = true;
  const create = document.createElement.bind(document);
  document.createElement = (name: string, options?: ElementCreationOptions) => {
    const element = create(name, options);
    if (element instanceof HTMLStyleElement) element.nonce = nonce;
    return element;
  };
}
