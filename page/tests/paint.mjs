// The time to the first paint and to the first sentence, with the processor slowed down: node tests/paint.mjs [TIMES [RATE]]
import { browser } from "./browser.mjs";
import { mock } from "./mock.mjs";

/** Milliseconds to the first paint with content, to the sentence, and spent in scripts, of one visit. */
export async function visit(chromium, url, rate) {
  const context = await chromium.newContext({ viewport: { width: 1280, height: 900 } });
  const page = await context.newPage();
  const session = await context.newCDPSession(page);
  await session.send("Emulation.setCPUThrottlingRate", { rate });
  await session.send("Performance.enable");
  await page.addInitScript(() => {
    new MutationObserver((_, observer) => {
      if (!document.querySelector("main h1")) return;
      observer.disconnect();
      requestAnimationFrame(() => requestAnimationFrame(() => (window.sentence_ms = performance.now())));
    }).observe(document, { childList: true, subtree: true });
  });
  await page.goto(url);
  await page.waitForFunction(() => window.sentence_ms !== undefined && performance.getEntriesByName("first-contentful-paint").length > 0);
  const { metrics } = await session.send("Performance.getMetrics");
  const told = await page.evaluate(() => ({ paint_ms: performance.getEntriesByName("first-contentful-paint")[0].startTime, sentence_ms: window.sentence_ms }));
  await context.close();
  return { ...told, script_ms: 1000 * metrics.find((one) => one.name === "ScriptDuration").value };
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const chromium = await browser();
  const server = await mock("degraded");
  for (let times = Number(process.argv[2] ?? 5); times > 0; times -= 1) {
    const { paint_ms, sentence_ms, script_ms } = await visit(chromium, server.url, Number(process.argv[3] ?? 6));
    console.log(`first paint ${paint_ms.toFixed(0)} ms, the sentence ${sentence_ms.toFixed(0)} ms, scripts ${script_ms.toFixed(0)} ms`);
  }
  await server.close();
  await chromium.close();
}
