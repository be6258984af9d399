// Pictures of every screen, to be looked at, in both themes and three widths (a phone, a laptop, a wide screen):
// node tests/pictures.mjs FOLDER [PATTERN] [LOCALE…]. A picture is made if its name SCENE-PLACE-DOING-THEME-WIDTH-LANGUAGE has the pattern.
// A name that ends in "fold" is what a laptop shows without scrolling.
import { mkdirSync } from "node:fs";
import { browser, open } from "./browser.mjs";
import { mock } from "./mock.mjs";

const [folder = "pictures", only = "", ...locales] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const chromium = await browser();

/** What is done on a screen before its picture is taken. */
const DOINGS = {
  measured: async (page) => {
    for (const name of ["limits", "price"]) {
      const answer = page.waitForResponse((one) => one.url().endsWith(name) && one.request().method() === "POST");
      await page.locator(name === "limits" ? ".roof ~ .buttons button" : ".price .buttons button").click();
      await answer;
    }
  },
  levels: async (page) => {
    for (const box of await page.getByRole("checkbox").all()) await box.check();
    await page.locator("button.primary").click();
    await page.locator(".filters select").nth(1).selectOption("p4510");
    await page.locator(".planned").first().waitFor();
  },
  choose: (page) => page.locator(".case button.primary").first().click(),
  plan: async (page) => {
    await DOINGS.choose(page);
    await page.locator("dialog .choices, dialog .lead").first().waitFor();
    // With a free drive at hand the plan is there at once.
    if ((await page.locator("dialog .choices").count()) > 0) await page.locator("dialog button.primary").click();
    await page.locator("dialog .lead").waitFor();
  },
  unfolded: async (page) => {
    for (const fold of await page.locator("summary").all()) await fold.click();
  },
  tested: (page) => page.locator("button.primary").last().click(),
  gone: async (page, server) => {
    await server.close();
    await page.locator(".silence").waitFor();
  },
};
const SCREENS = [
  ["well", ""], ["empty", ""], ["degraded", ""], ["two", ""], ["bare", ""], ["rebuilding", ""], ["failed", ""], ["silent", ""], ["unseen", ""], ["paused", ""], ["read_only", ""], ["member_silent", ""], ["mismatch", ""], ["images", ""], ["many", ""], ["many", "", "unfolded"], ["hostile", ""], ["told", "", "unfolded"], ["told", "", "choose"], ["told", "arrays"], ["told", "activity"], ["told", "alarms"], ["degraded", "", "choose"], ["degraded", "", "plan"], ["degraded", "", "gone"],
  ["degraded", "arrays"], ["many", "arrays"], ["shared", "arrays"], ["degraded", "arrays/tank"], ["rebuilding", "arrays/tank", "measured"], ["stopped", "arrays/tank"],
  ["many", "drives"], ["shared", "drives"], ["empty", "create"], ["empty", "create", "levels"], ["degraded", "activity"], ["degraded", "alarms", "tested"], ["degraded", "settings"],
];
for (const theme of ["light", "dark"]) {
  for (const width of [390, 1280, 1920]) {
    for (const [scene, place, doing] of SCREENS) {
      for (const locale of locales.length > 0 ? locales : ["en-GB"]) {
        const name = [scene, place.replace("/", "_") || "first", doing, theme, width, locale.slice(0, 2)].filter(Boolean).join("-");
        if (name.match(only) === null) continue;
        const server = await mock(scene);
        let is_open = true;
        const close = async () => is_open && ((is_open = false), await server.close());
        const { page, context } = await open(chromium, `${server.url}#/${place}`, { viewport: { width, height: 800 }, colorScheme: theme, locale });
        await page.waitForTimeout(place === "arrays/tank" ? 2500 : 250);
        await DOINGS[doing]?.(page, { close });
        if (width === 1280) await page.screenshot({ path: `${folder}/${name}-fold.png` });
        // The window is as high as the page, so that what sticks to its edge is at the edge.
        const height = await page.evaluate(() => Math.max(800, document.documentElement.scrollHeight));
        await page.setViewportSize({ width, height });
        await page.screenshot({ path: `${folder}/${name}.png` });
        await context.close();
        await close();
      }
    }
  }
}
await chromium.close();
