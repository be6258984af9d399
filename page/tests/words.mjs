// The words that a reader sees, and what he presses, from the headline of the bad day to the time of its end: node tests/words.mjs
import { browser, open } from "./browser.mjs";
import { SCENES, mock } from "./mock.mjs";

/** The words of a part that are seen: what stands in a closed fold, or only for screen readers, is not. */
export const words_of = (part) =>
  part.evaluate((part) => {
    const texts = document.createTreeWalker(part, NodeFilter.SHOW_TEXT);
    let count = 0;
    while (texts.nextNode()) {
      const { parentElement: holder, textContent } = texts.currentNode;
      const box = holder.getBoundingClientRect();
      const is_seen = box.width > 2 && holder.checkVisibility({ contentVisibilityAuto: true }) && !holder.closest(".hidden");
      if (is_seen) count += textContent.split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word)).length;
    }
    return count;
  });

/** Where a free drive is at hand: the words until the order, and the presses. `has_ended`: the rebuild's end is forecast on the first screen. */
export async function bad_day(page, server) {
  const first = page.locator(".case button.primary").first();
  await first.waitFor();
  await page.getByText(/is free and fits/).waitFor();
  let words = (await words_of(page.locator(".verdict"))) + (await words_of(page.locator("article.case")));
  let presses = 1;
  await first.click();
  const window = page.getByRole("dialog");
  const go = window.getByRole("button", { name: "Do it" });
  const choose = window.getByRole("button", { name: "Show the plan", exact: true });
  await go.or(choose).waitFor();
  if (await choose.isVisible()) {
    words += await words_of(window);
    presses += 1;
    await choose.click();
    await go.waitFor();
  }
  words += await words_of(window);
  const told = await window.innerText();
  presses += 1;
  await go.click();
  await window.getByRole("button", { name: "Close" }).last().click();
  server.change(SCENES.rebuilding());
  await page.getByRole("heading", { level: 1, name: /is being rebuilt/ }).waitFor();
  const after = (await words_of(page.locator(".verdict"))) + (await words_of(page.locator("article.case")));
  return { words, presses, told, after };
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const chromium = await browser();
  const server = await mock("degraded");
  const { page } = await open(chromium, server.url);
  const { words, presses, after } = await bad_day(page, server);
  console.log(`${words} words and ${presses} presses to the order, ${after} words on the first screen after it`);
  await chromium.close();
  await server.close();
}
