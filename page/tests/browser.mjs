// Chromium with the page, and what every test asks of a screen: no fault in the console, nothing that overflows, nothing that axe finds.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";

const AXE = readFileSync(new URL("../node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
const PROGRAM = process.env.STRIA_CHROMIUM ?? "/usr/bin/chromium";
/** How long a test waits for something that must come. A busy machine is slow; what comes is not waited for longer. */
export const PATIENCE = Number(process.env.STRIA_PATIENCE_MS ?? 60_000);

export async function browser() {
  return chromium.launch({ executablePath: PROGRAM, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
}

/** A tab that notes every fault; `faults` must stay empty. */
export async function open(browser, url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, locale: "en-GB", timezoneId: "Europe/Berlin", ...options });
  // A daemon that was built before a change of the page can still be tested with it. Cockpit has the package's own copy, below another path.
  if (process.env.STRIA_BUNDLE) {
    await context.route(({ pathname }) => /^\/(page\.(js|css)|icon\.svg)?$/.test(pathname), async (route) => {
      const name = new URL(route.request().url()).pathname.slice(1) || "index.html";
      await route.fulfill({ path: new URL(`../../crates/manage/page/${name}`, import.meta.url).pathname });
    });
  }
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  const faults = [];
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error" && !/Failed to load resource|ERR_(CONNECTION|INCOMPLETE|EMPTY)/.test(message.text())) faults.push(message.text());
  });
  page.on("dialog", (dialog) => (faults.push(`a dialog: ${dialog.message()}`), dialog.dismiss()));
  page.on("request", (request) => {
    if (new URL(request.url()).origin !== new URL(url).origin && !request.url().startsWith("data:")) faults.push(`a request to ${request.url()}`);
  });
  await page.goto(url);
  await page.locator("main h1").first().waitFor();
  return { page, faults, context };
}

/** What axe finds, in words. It runs in a world of its own, which the page's policy does not reach. */
export async function axe(page) {
  const session = await page.context().newCDPSession(page);
  const { frameTree } = await session.send("Page.getFrameTree");
  const { executionContextId: contextId } = await session.send("Page.createIsolatedWorld", { frameId: frameTree.frame.id });
  const run = async (expression) => {
    const { result, exceptionDetails } = await session.send("Runtime.evaluate", { expression, contextId, awaitPromise: true, returnByValue: true });
    assert.equal(exceptionDetails, undefined, JSON.stringify(exceptionDetails));
    return result.value;
  };
  await run(AXE);
  const found = await run("axe.run(document, { resultTypes: ['violations'] }).then((result) => result.violations.map((one) => `${one.id}: ${one.help}: ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(' | ')}`))");
  await session.detach();
  return found;
}

/** What sticks out of the window or of its card sideways, or is squeezed to nothing. */
export const sticking_out = (page) =>
  page.evaluate(() => {
    const found = [];
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth > width) found.push(`the page is ${document.documentElement.scrollWidth} wide in a window of ${width}`);
    for (const element of document.querySelectorAll("main *, header.top *, nav *, dialog *")) {
      if (element.closest(".scroll, .hidden, svg, option")) continue;
      const box = element.getBoundingClientRect();
      if (box.width > 0 && (box.right > width + 1 || box.left < -1)) found.push(`${element.tagName}.${element.className}: ${Math.round(box.left)} to ${Math.round(box.right)}`);
      const card = element.closest(".card")?.getBoundingClientRect();
      if (card && box.width > 0 && box.right > card.right - 8 && !element.matches(".card, .card *:has(*)")) found.push(`${element.tagName}.${element.className} reaches over its card's edge: ${Math.round(box.right)} of ${Math.round(card.right)}`);
      const bay = element.closest(".bay")?.getBoundingClientRect();
      if (bay && (box.right > bay.right + 1 || box.left < bay.left - 1)) found.push(`${element.className} sticks out of its bay: ${element.textContent}`);
      const is_text = element.childElementCount === 0 && element.textContent.trim().length > 1;
      if (is_text && element.checkVisibility() && getComputedStyle(element).display !== "inline" && box.width < 8) found.push(`${element.tagName}.${element.className} is ${Math.round(box.width)} wide: ${element.textContent}`);
    }
    return found.slice(0, 8);
  });
