/** What runs in the page. It is text, because this repository's types are those of Node. */

/** Before the page's own scripts: remembers when the first machine of the list is there. */
export const recordFirstRow = `
  const watcher = setInterval(() => {
    if (document.querySelector(".table .line") === null) return;
    globalThis.firstRowMs = performance.now();
    clearInterval(watcher);
  }, 4);`;

/** The time at which the first machine of the list shows that state. */
export function waitForState(state: string): string {
  return `new Promise((resolve) => {
    const look = () => {
      if (document.querySelector(".table .line .badge")?.textContent === ${JSON.stringify(state)}) resolve(Date.now());
      else requestAnimationFrame(look);
    };
    look();
  })`;
}

/** Scrolls from the first machine to the last, frame by frame; the longest task in ms, 0 when none had 50 ms. */
export const scroll = `(async () => {
  let longestMs = 0;
  const observer = new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) longestMs = Math.max(longestMs, entry.duration);
  });
  observer.observe({ type: "longtask" });
  const box = document.querySelector(".table .body");
  for (let top = 0; top < box.scrollHeight; top += 120) {
    box.scrollTop = top;
    await new Promise((resolve) => requestAnimationFrame(resolve));
  }
  await new Promise((resolve) => setTimeout(resolve, 200));
  observer.disconnect();
  return longestMs;
})()`;
