/** Debian's Chromium, driven by Playwright. Errors of the page and requests to elsewhere are collected: both must stay empty. */
import { existsSync } from "node:fs";
import { chromium, type Browser, type BrowserContext, type Page } from "playwright-core";

const programs = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

export async function openChromium(): Promise<Browser> {
  const executablePath = programs.find((path) => existsSync(path));
  if (executablePath === undefined)
    throw new Error("there is no Chromium; install the Debian package chromium");
  return chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
}

export interface WatchedPage {
  readonly page: Page;
  readonly context: BrowserContext;
  /** Errors that the page threw, what its policy refused, and scripts of an attack that ran. */
  readonly problems: string[];
  /** Addresses of other servers that the page asked. */
  readonly foreign: string[];
}

export async function openPage(browser: Browser, url: string): Promise<WatchedPage> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, acceptDownloads: true });
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  const page = await context.newPage();
  const problems: string[] = [];
  const foreign: string[] = [];
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("dialog", (dialog) => {
    problems.push(`a dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("console", (message) => {
    if (/Content Security Policy/.test(message.text())) problems.push(message.text());
  });
  page.on("request", (request) => {
    const { origin, protocol } = new URL(request.url());
    if (/^(https?|wss?):$/.test(protocol) && origin !== new URL(url).origin) foreign.push(request.url());
  });
  return { page, context, problems, foreign };
}
