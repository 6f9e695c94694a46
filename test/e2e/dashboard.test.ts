/**
 * The dashboard in a real browser, on a real platform with real machines: what a user does with it from signing in to deleting.
 * The pictures in docs/images/dashboard are made here.
 */
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { eventually, tier } from "@cocoon/testkit";
import type { Page } from "playwright-core";
import { openChromium, openPage } from "./chromium.ts";
import { newHome, npm, root } from "./home.ts";
import { convergeMs, openPlatform } from "./platform.ts";

const attack = `"><img src=x onerror=alert(1)>`;
const pictures = join(root, "docs", "images", "dashboard");

test("sign in, look, use, act, and fail to attack", { timeout: 40 * 60_000 }, async (t) => {
  await using state = await newHome();
  const home = state.path;
  const up = await npm(home, "up");
  assert.equal(up.code, 0, up.stderr + up.stdout);
  const { kubectl } = await openPlatform(home);
  await using browser = await openChromium();
  const link = await readLink(home);
  const url = new URL(link).origin;
  const { page, problems, foreign } = await openPage(browser, url);
  page.setDefaultTimeout(60_000);
  const picture = async (name: string) => {
    if (!process.env["UPDATE_PICTURES"]) return;
    await mkdir(pictures, { recursive: true });
    await page.screenshot({ path: join(pictures, `${name}.png`) });
  };
  let broken = false;
  const step = (name: string, work: () => Promise<void>) =>
    t.test(name, { skip: broken && "the step before it failed" }, async () => {
      broken = true;
      await work();
      broken = false;
    });

  await step("the address stands in status, and a link signs in once", async () => {
    assert.match((await npm(home, "status")).stdout, new RegExp(`Dashboard: ${url}`));
    await page.goto(url);
    await page.getByLabel("Token for the Kubernetes API").waitFor();
    await picture("sign-in");
    await page.goto(link);
    await page.getByRole("button", { name: "Continue" }).click();
    await page.getByRole("link", { name: "demo", exact: true }).waitFor();
    assert.doesNotMatch(page.url(), /#/, "the code does not stay in the address");
    await picture("sets");
  });

  await step("a set is created from the form; problems stand at their fields first", async () => {
    await page.getByRole("link", { name: "Create a set" }).click();
    await page.getByLabel("Name", { exact: true }).fill("by-page");
    await page.getByLabel("Sub-agents").fill("-3");
    await page.getByRole("button", { name: "Check" }).click();
    await page.locator(".field-problem").first().waitFor();
    await picture("create");
    await page.getByLabel("Sub-agents").fill("0");
    await page.getByLabel("CPU").fill("200m"); // two more sets of it have to fit on its node
    await page.getByLabel("Reached by").selectOption("vnc");
    await page.getByRole("button", { name: "Check" }).click();
    await page.getByText("The API server accepts it.").waitFor();
    await page.getByRole("button", { name: "Create", exact: true }).click();
    await page.getByRole("heading", { name: /by-page/ }).waitFor();
    await page.getByRole("heading", { name: /Running/ }).waitFor({ timeout: convergeMs });
    assert.equal(await kubectl("get", "cocoonset", "by-page", "-o", "jsonpath={.status.phase}"), "Running");
  });

  await step("a list is used by keyboard, and the page is dark or light as the user wants it", async () => {
    await page.goto(`${url}/machines`);
    await page.getByRole("link", { name: "by-page-0" }).waitFor();
    await page.keyboard.press("/");
    await page.keyboard.type("by-page");
    await page.getByText("1 of", { exact: false }).waitFor();
    await page.getByRole("rowgroup", { name: "Machines" }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: /by-page-0/ }).waitFor();
    const back = () => page.evaluate<string>("getComputedStyle(document.body).backgroundColor");
    const before = await back();
    await page.getByRole("button", { name: "Switch between dark and light" }).click();
    assert.notEqual(await back(), before);
    await page.reload();
    await page.getByRole("heading", { name: /by-page-0/ }).waitFor();
    assert.notEqual(await back(), before, "the choice is kept");
    await page.getByRole("button", { name: "Switch between dark and light" }).click();
    await page.goto(`${url}/machines`);
    await page.getByRole("link", { name: "by-page-0" }).waitFor();
    await picture("machines");
  });

  await step("the set page draws its machines", async () => {
    await page.goto(`${url}/sets/default/demo`);
    await page
      .getByRole("list", { name: "Machines of the set" })
      .getByRole("link", { name: "demo-0" })
      .waitFor();
    await page.getByText("Successfully assigned default/demo-0").waitFor();
    await page.getByText("The registry keeps nothing of this set.").waitFor();
    await picture("set");
  });

  await step("a terminal runs commands", async () => {
    await page.goto(`${url}/machines/default/by-page-0/terminal`);
    await page.locator(".xterm-screen").waitFor();
    await typeUntil(page, "echo marker-$((40+2))\n", /marker-42/);
    await typeUntil(page, `echo '${attack}'\n`, /onerror/);
    await picture("terminal");
  });

  await step("the serial console shows its history and takes keys", async () => {
    await page.goto(`${url}/machines/default/by-page-0/console`);
    await page.locator(".xterm-screen").waitFor();
    await typeUntil(page, "\n", /\S/);
    await picture("console");
  });

  await step("the log is there, and an attack in it is text", async () => {
    await kubectl("exec", "by-page-0", "--", "sh", "-c", `echo '${attack}' > /dev/console || true`);
    await page.goto(`${url}/machines/default/by-page-0/logs`);
    await page.getByLabel("Serial console instead of the journal").check();
    await eventually(async () => assert.match((await page.getByRole("log").textContent()) ?? "", /onerror/), {
      timeoutMs: 60_000,
    });
    await picture("logs");
  });

  await step("a directory that answers late does not take the place of the one that is open", async () => {
    const answered = Promise.withResolvers<void>();
    await page.routeWebSocket(/\/exec\?.*command=%2F(&|$)/, (socket) => {
      const server = socket.connectToServer();
      server.onMessage((message) => void answered.promise.then(() => socket.send(message)));
    });
    await page.goto(`${url}/machines/default/by-page-0/files`);
    await openDirectory(page, "/etc");
    answered.resolve();
    await page.getByRole("button", { name: "Download passwd" }).waitFor();
    assert.equal(await page.getByLabel("Directory").inputValue(), "/etc");
    await page.goBack();
    await page.getByRole("heading", { name: "/", exact: true }).waitFor();
    await page.getByRole("button", { name: "etc/" }).waitFor();
  });

  await step("files go up and come down with their checksums; a name that attacks is a name", async () => {
    await page.goto(`${url}/machines/default/by-page-0/files`);
    await openDirectory(page, "/tmp");
    const content = randomBytes(300_000);
    const sum = createHash("sha256").update(content).digest("hex");
    const path = join(dirname(home), "upload.bin");
    await writeFile(path, content);
    await page.locator('input[type="file"]').setInputFiles(path);
    await page.getByText(`SHA-256 ${sum} was read back`).waitFor();
    const inGuest = await kubectl("exec", "by-page-0", "--", "sha256sum", "/tmp/upload.bin");
    assert.ok(inGuest.startsWith(sum), inGuest);
    const download = page.waitForEvent("download");
    await page.getByRole("button", { name: "Download upload.bin" }).click();
    assert.deepEqual(await readFile((await (await download).path()) ?? ""), content);
    await kubectl("exec", "by-page-0", "--", "sh", "-c", `touch '/tmp/${attack.replaceAll("/", "")}'`);
    await page.getByRole("button", { name: "Open" }).click();
    await page.getByText("onerror=alert(1)").waitFor();
    await picture("files");
  });

  await step("a port of the guest is opened in a tab of its own, by the gateway", async () => {
    const serve =
      "mkdir -p /tmp/www && echo from-the-guest > /tmp/www/index.html && httpd -p 8000 -h /tmp/www";
    await kubectl("exec", "by-page-0", "--", "sh", "-c", serve);
    await page.goto(`${url}/machines/default/by-page-0`);
    await page.getByLabel("Port of the guest").fill("8000");
    const [tab] = await Promise.all([
      page.waitForEvent("popup"),
      page.getByRole("button", { name: "Open in a new tab" }).click(),
    ]);
    await tab.getByText("from-the-guest").waitFor();
    assert.match(tab.url(), /^http:\/\/8000-by-page-0\.default\.localhost:\d+\/$/);
    assert.equal(await tab.evaluate("document.cookie"), "", "no script of the guest reads the cookie");
    await tab.reload();
    await tab.getByText("from-the-guest").waitFor();
    await tab.close();
  });

  await step("the screen shows the picture of the guest", async () => {
    await kubectl("exec", "by-page-0", "--", "sh", "-c", String.raw`printf '\033[44m\033[2J' > /dev/tty1`);
    await page.goto(`${url}/machines/default/by-page-0/screen`);
    await page.getByText("Connected: keys and mouse go to the machine.").waitFor();
    await assertBlue(page);
    await picture("screen");
  });

  await step("hibernating is watched, the view asks to wake, and the machine wakes as it was", async () => {
    await kubectl("exec", "by-page-0", "--", "sh", "-c", "echo kept > /run/precious");
    await page.goto(`${url}/machines/default/by-page-0`);
    await page.getByRole("button", { name: "Hibernate" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("cocoonctl hibernate by-page-0 -n default").waitFor();
    await dialog.getByRole("button", { name: "Hibernate" }).click();
    await page.getByRole("heading", { name: /by-page-0 hibernating/ }).waitFor();
    await page.getByRole("heading", { name: /by-page-0 asleep/ }).waitFor({ timeout: convergeMs });
    await page
      .getByText(/snapshot hibernate: [\d.]+ MiB sent, .* in [\d.]+ s/)
      .first()
      .waitFor();
    await picture("machine");
    await page.getByRole("link", { name: "Terminal" }).click();
    await page.getByText("The machine is asleep.").waitFor();
    await page.getByRole("button", { name: "Wake it" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Wake it" }).click();
    await page.locator(".xterm-screen").waitFor({ timeout: convergeMs });
    await typeUntil(page, "cat /run/precious\n", /kept/);
    await page.getByRole("link", { name: "Screen" }).click();
    await assertBlue(page);
  });

  await step("a snapshot of the running machine is taken, and a new set is restored from it", async () => {
    await page.goto(`${url}/sets/default/by-page`);
    await page.getByRole("button", { name: "Snapshot" }).click();
    const saving = page.getByRole("dialog");
    await saving.getByLabel("Name of the new set").fill("saved");
    await saving.getByRole("button", { name: "Snapshot" }).click();
    await page.getByRole("heading", { name: /saved Suspended/ }).waitFor({ timeout: 2 * convergeMs });
    await page.getByRole("button", { name: "Restore" }).click();
    const restoring = page.getByRole("dialog");
    await restoring.getByLabel("Snapshot").selectOption("saved-0:hibernate");
    await restoring.getByLabel("Name of the new set").fill("back");
    await restoring.getByText("cocoonctl snapshot restore saved-0 hibernate --as back -n default").waitFor();
    await restoring.getByRole("button", { name: "Restore" }).click();
    await page.getByRole("heading", { name: /back Running/ }).waitFor({ timeout: convergeMs });
    assert.equal(await kubectl("exec", "back-0", "--", "cat", "/run/precious"), "kept\n");
    assert.equal(await kubectl("exec", "by-page-0", "--", "cat", "/run/precious"), "kept\n");
  });

  await step(
    "scaling and moving show their commands, and drain what it will do, before anything happens",
    async () => {
      await page.goto(`${url}/sets/default/by-page`);
      await page.getByRole("button", { name: "Scale" }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByLabel("Sub-agents").fill("2");
      await dialog.getByText("cocoonctl scale by-page 2 -n default").waitFor();
      await dialog.getByRole("button", { name: "Cancel" }).click();
      await page.getByRole("button", { name: "Move to a node" }).click();
      const { here, other } = await findNodes(kubectl, "by-page-0");
      await dialog.getByText(`cocoonctl migrate by-page ${other} -n default`).waitFor();
      await dialog.getByRole("button", { name: "Cancel" }).click();
      await openDrain(page, `${url}/nodes`, here);
      await dialog.getByText(`cocoonctl drain ${here}`, { exact: true }).waitFor();
      const plan = dialog.getByRole("table", { name: "What will happen" });
      await plan.getByRole("row", { name: /by-page-0 ready sleeps/ }).waitFor();
      assert.equal(await dialog.getByRole("button", { name: "Drain" }).isDisabled(), true);
      await picture("drain");
      await dialog.getByRole("button", { name: "Cancel" }).click();
    },
  );

  if (tier() === "full")
    await step("a set is scaled, forked and moved, and its node is drained", async () => {
      const isReady = (pod: string) =>
        kubectl("wait", "--for=condition=Ready", `pod/${pod}`, `--timeout=${convergeMs / 1000}s`);
      const isRunning = (name: string) =>
        page.getByRole("heading", { name: `${name} Running` }).waitFor({ timeout: convergeMs });
      const dialog = page.getByRole("dialog");
      const node = async () => (await findNodes(kubectl, "back-0")).here;
      const scaleTo = async (subAgents: number) => {
        await page.getByRole("button", { name: "Scale" }).click();
        await dialog.getByLabel("Sub-agents").fill(String(subAgents));
        await dialog.getByRole("button", { name: "Scale" }).click();
        await dialog.waitFor({ state: "hidden" });
      };
      await page.goto(`${url}/sets/default/demo`);
      await kubectl("exec", "demo-0", "--", "sh", "-c", "echo kept > /run/precious");
      await scaleTo(2);
      const machines = page.getByRole("list", { name: "Machines of the set" });
      await machines.getByRole("link", { name: "demo-2" }).waitFor({ timeout: convergeMs });
      await isReady("demo-2");
      const inFork = await kubectl("exec", "demo-2", "--", "cat", "/run/precious");
      assert.equal(inFork, "kept\n", "a fork of the main agent");
      await scaleTo(1);
      await machines.getByRole("link", { name: "demo-2" }).waitFor({ state: "hidden", timeout: convergeMs });

      await page.goto(`${url}/sets/default/back`);
      await page.getByRole("button", { name: "Fork" }).click();
      await dialog.getByLabel("Name of the new set").fill("forked");
      await dialog.getByRole("button", { name: "Fork" }).click();
      await isRunning("forked");
      assert.equal(await kubectl("exec", "forked-0", "--", "cat", "/run/precious"), "kept\n");
      await kubectl("delete", "cocoonset", "forked"); // the machines of both nodes must fit on one below

      await page.goto(`${url}/sets/default/back`);
      const { other } = await findNodes(kubectl, "back-0");
      await page.getByRole("button", { name: "Move to a node" }).click();
      await dialog.getByLabel("Node").selectOption(other);
      await dialog.getByRole("button", { name: "Move to a node" }).click();
      await eventually(async () => assert.equal(await node(), other), { timeoutMs: convergeMs });
      await isReady("back-0");
      assert.equal(await kubectl("exec", "back-0", "--", "cat", "/run/precious"), "kept\n");

      await openDrain(page, `${url}/nodes`, other);
      await dialog.getByLabel(`Type ${other} to confirm`).fill(other);
      await dialog.getByRole("button", { name: "Drain" }).click();
      await dialog.getByText(`${other} is drained`).waitFor({ timeout: 3 * convergeMs });
      const on = `spec.nodeName=${other}`;
      const left = await kubectl("get", "pods", "-A", "--field-selector", on, "-o", "name");
      assert.equal(left, "", "no machine is on it");
      await dialog.getByRole("button", { name: "Close" }).click();
      const card = page.getByRole("article").filter({ has: page.getByRole("heading", { name: other }) });
      await card.getByRole("button", { name: "Uncordon" }).click();
      await dialog.getByRole("button", { name: "Uncordon" }).click();
      await page.goto(`${url}/sets/default/by-page`);
      await isReady("by-page-0");
      await isRunning("by-page");
      assert.equal(await kubectl("exec", "by-page-0", "--", "cat", "/run/precious"), "kept\n");
    });

  await step("the registry shows who sleeps in it, and how much they share", async () => {
    await page.goto(`${url}/registry`);
    const sleeping = page.getByRole("row", { name: /vk-default-saved-0 asleep snapshot/ });
    await sleeping.getByRole("link", { name: "vk-default-saved-0" }).waitFor();
    await page
      .locator(".figures")
      .getByText(/^\d+\.\d\d : 1$/)
      .waitFor();
    await page.getByRole("row", { name: /^administrator admin/ }).waitFor();
    await picture("registry");
  });

  await step("nodes and health are there, and a node is cordoned", async () => {
    await page.goto(`${url}/nodes`);
    const node = page.getByRole("article").filter({ has: page.getByRole("heading", { name: /cocoon-2/ }) });
    await node.getByRole("button", { name: "Cordon" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Cordon" }).click();
    await node.getByText("takes no new machines").waitFor();
    assert.equal(await kubectl("get", "node", "cocoon-2", "-o", "jsonpath={.spec.unschedulable}"), "true");
    await picture("nodes");
    await node.getByRole("button", { name: "Uncordon" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Uncordon" }).click();
    await node.getByRole("button", { name: "Cordon" }).waitFor();
    await page.goto(`${url}/health`);
    const map = page.getByRole("group", { name: "Map of the installation" });
    await map
      .getByRole("listitem")
      .filter({ hasText: "operator" })
      .getByText(/^version /)
      .waitFor();
    await map
      .getByRole("listitem")
      .filter({ hasText: "API server" })
      .getByText(/^version v1\./)
      .waitFor();
    await map
      .getByText(/^certificate: \d+ days$/)
      .first()
      .waitFor();
    await page.getByRole("list", { name: "What was checked" }).getByText("All are").waitFor();
    await page.locator(".uplot canvas").first().waitFor();
    await picture("health");
  });

  await step("a user with fewer rights sees why buttons are locked, and cannot do more", async () => {
    await kubectl("create", "serviceaccount", "viewer");
    await kubectl(
      "create",
      "role",
      "viewer",
      "--verb=get,list,watch",
      "--resource=pods,cocoonsets.cocoonset.cocoonstack.io",
    );
    await kubectl("create", "rolebinding", "viewer", "--role=viewer", "--serviceaccount=default:viewer");
    const token = (await kubectl("create", "token", "viewer")).trim();
    const other = await openPage(browser, url);
    await other.page.goto(url);
    await other.page.getByLabel("Token for the Kubernetes API").fill(token);
    await other.page.getByRole("button", { name: "Sign in" }).click();
    await other.page.getByText("You may not list this:").waitFor();
    await other.page.getByLabel("Namespace").fill("default");
    await other.page.getByLabel("Namespace").press("Enter");
    await other.page.getByRole("link", { name: "by-page" }).click();
    await other.page.getByText("it needs the right to delete cocoonsets").waitFor();
    await other.page.goto(`${url}/machines/default/by-page-0/terminal`);
    await other.page.getByText("it needs the right to create pods/exec in namespace default").waitFor();
    await other.page.getByRole("link", { name: "Overview" }).click();
    await other.page.getByText("it needs the right to create pods/portforward").waitFor();
    await other.page.goto(`${url}/sets/default/by-page`);
    const suspend = other.page.getByRole("button", { name: "Suspend" });
    assert.equal(await suspend.getAttribute("aria-disabled"), "true");
    const status = await other.page.evaluate(
      async (path) =>
        (await fetch(path, { method: "DELETE", headers: { "x-cocoon-dashboard": "1" } })).status,
      "/api/k8s/apis/cocoonset.cocoonstack.io/v1/namespaces/default/cocoonsets/by-page",
    );
    assert.equal(status, 403);
    assert.deepEqual(other.problems, []);
    await other.context.close();
  });

  await step("a changed cookie signs out, and another site's form changes nothing", async () => {
    const { page: other, context, problems: found } = await openPage(browser, url);
    const cookies = await page.context().cookies();
    await context.addCookies(
      cookies.map((cookie) =>
        cookie.name === "cocoon_session" ? { ...cookie, value: `${cookie.value.slice(0, -2)}xx` } : cookie,
      ),
    );
    await other.goto(url);
    await other.getByLabel("Token for the Kubernetes API").waitFor();
    await context.addCookies(cookies);
    // The same address with another name is another site to the browser.
    await other.goto(url.replace("127.0.0.1", "localhost"));
    const path = "/api/k8s/apis/cocoonset.cocoonstack.io/v1/namespaces/default/cocoonsets/by-page";
    const answer = await other.evaluate<string>(
      `fetch(${JSON.stringify(url + path)}, { method: "DELETE", credentials: "include", mode: "no-cors" }).then(({ type }) => type, () => "refused")`,
    );
    assert.equal(answer, "refused", "the policy of the page lets it ask no other site");
    assert.equal(
      await kubectl("get", "cocoonset", "by-page", "-o", "name"),
      "cocoonset.cocoonset.cocoonstack.io/by-page\n",
    );
    assert.ok(
      found.every((text) => /Content Security Policy/.test(text)),
      found.join("; "),
    );
    await context.close();
  });

  await step("the page goes on when the API server restarts", async () => {
    await page.goto(`${url}/machines/default/by-page-0/logs`);
    await page.getByLabel("Serial console instead of the journal").check();
    const assertLogged = (text: RegExp) =>
      eventually(async () => assert.match((await page.getByRole("log").textContent()) ?? "", text), {
        timeoutMs: convergeMs,
      });
    const write = (word: string) =>
      kubectl("exec", "by-page-0", "--", "sh", "-c", `echo ${word}-the-restart > /dev/console`);
    await write("before");
    await assertLogged(/before-the-restart/);
    assert.equal((await npm(home, "cocoonctl", "--", "restart", "kube-apiserver")).code, 0);
    await write("after");
    await assertLogged(/after-the-restart/);
    await page.getByRole("link", { name: "Overview" }).click();
    await page.getByRole("link", { name: "by-page", exact: true }).click();
    await page.getByRole("heading", { name: "by-page Running" }).waitFor({ timeout: convergeMs });
    await page.getByRole("button", { name: "Suspend" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("cocoonctl suspend by-page -n default").waitFor();
    await dialog.getByRole("button", { name: "Suspend" }).click();
    await page.getByRole("heading", { name: /by-page Suspend/ }).waitFor({ timeout: convergeMs });
  });

  await step("a set is deleted after its name was typed, and the dialog says what is kept", async () => {
    await page.goto(`${url}/sets/default/by-page`);
    await page.getByRole("button", { name: "Delete" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("leaves a snapshot named latest").waitFor();
    assert.equal(await dialog.getByRole("button", { name: "Delete" }).isDisabled(), true);
    await dialog.getByLabel("Type by-page to confirm").fill("by-page");
    await dialog.getByRole("button", { name: "Delete" }).click();
    await page.getByText("There is no such set, or you may not see it.").waitFor({ timeout: convergeMs });
    assert.equal(await kubectl("get", "cocoonset", "by-page", "--ignore-not-found", "-o", "name"), "");
  });

  assert.deepEqual(problems, [], "the page threw nothing, and no attack ran");
  assert.deepEqual(foreign, [], "nothing is loaded from elsewhere");
});

async function readLink(home: string): Promise<string> {
  const made = await npm(home, "cocoonctl", "--", "dashboard");
  assert.equal(made.code, 0, made.stderr);
  const link = /http:\/\/127\.0\.0\.1:\d+\/link#\S+/.exec(made.stdout)?.[0];
  assert.ok(link, made.stdout);
  return link;
}

/** The node of a pod, and another one of the platform's two. */
async function findNodes(
  kubectl: (...args: string[]) => Promise<string>,
  pod: string,
): Promise<{ readonly here: string; readonly other: string }> {
  const here = await kubectl("get", "pod", pod, "--ignore-not-found", "-o", "jsonpath={.spec.nodeName}");
  return { here, other: here === "cocoon-1" ? "cocoon-2" : "cocoon-1" };
}

async function openDrain(page: Page, url: string, node: string): Promise<void> {
  await page.goto(url);
  const card = page.getByRole("article").filter({ has: page.getByRole("heading", { name: node }) });
  await card.getByRole("button", { name: "Drain" }).click();
}

/** Most of what noVNC has drawn: the colour that the guest gave its console. */
async function assertBlue(page: Page): Promise<void> {
  await eventually(
    async () => {
      const share = await page.evaluate<number>(`(() => {
        const canvas = document.querySelector(".screen-place canvas");
        if (!canvas || canvas.width === 0) return 0;
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        let blue = 0;
        for (let at = 0; at < data.length; at += 4)
          if (data[at] < 32 && data[at + 1] < 32 && data[at + 2] > 128) blue += 1;
        return blue / (data.length / 4);
      })()`);
      assert.ok(share > 0.9, `${share} of the screen is blue`);
    },
    { timeoutMs: 60_000 },
  );
}

async function openDirectory(page: Page, path: string): Promise<void> {
  await page.getByLabel("Directory").fill(path);
  await page.getByRole("button", { name: "Open" }).click();
  await page.getByRole("heading", { name: path, exact: true }).waitFor();
  await page.getByRole("table").or(page.getByText("The directory is empty.")).waitFor();
}

/** A shell takes a moment until it listens; what was typed too early is typed again. */
async function typeUntil(page: Page, keys: string, expected: RegExp): Promise<void> {
  await eventually(
    async () => {
      await page.locator(".xterm-helper-textarea").focus();
      await page.keyboard.type(keys);
      await eventually(
        async () =>
          assert.match((await page.locator(".xterm").innerText()).replace(keys.trim(), ""), expected),
        {
          timeoutMs: 5_000,
        },
      );
    },
    { timeoutMs: 90_000 },
  );
}
