// Pictures of every screen in both themes and three widths, to be looked at: node tests/pictures.mjs FOLDER [SCENE]
import { mkdirSync } from "node:fs";
import { browser, open } from "./browser.mjs";
import { mock } from "./mock.mjs";

const folder = process.argv[2] ?? "pictures";
const only = process.argv[3];
mkdirSync(folder, { recursive: true });
const chromium = await browser();
const SCREENS = [
  ["well", ""], ["empty", ""], ["degraded", ""], ["bare", ""], ["rebuilding", ""], ["many", ""], ["hostile", ""],
  ["degraded", "arrays"], ["many", "arrays"], ["degraded", "arrays/tank"], ["many", "drives"], ["empty", "create"], ["degraded", "activity"], ["degraded", "alarms"], ["degraded", "settings"], ["rebuilding", "arrays/tank"], ["empty", "create"],
];
/** What is done on a screen before its picture is taken. */
const DOINGS = {
  "rebuilding arrays/tank": async (page) => {
    for (const name of ["Measure what the members could do", "Measure what it costs clients"]) await page.getByRole("button", { name }).click();
    await page.getByText(/limits: it does/).waitFor();
    await page.getByText(/costs clients \d/).waitFor();
  },
  "empty create": async (page) => {
    for (const box of await page.getByRole("checkbox").all()) await box.check();
    await page.getByRole("button", { name: "Next" }).click();
    await page.getByLabel("Drives like").selectOption("p4510");
    await page.getByText("the planner's models").waitFor();
  },
};
for (const theme of ["light", "dark"]) {
  for (const width of [390, 820, 1440]) {
    for (const [scene, place] of SCREENS) {
      if (only && `${scene}-${place.replace("/", "-")}-${theme}-${width}`.match(only) === null) continue;
      const server = await mock(scene);
      const { page, context } = await open(chromium, `${server.url}#/${place}`, { viewport: { width, height: 900 }, colorScheme: theme });
      await page.waitForTimeout(place === "arrays/tank" ? 3500 : 300);
      await DOINGS[`${scene} ${place}`]?.(page);
      await page.screenshot({ path: `${folder}/${scene}-${place.replace("/", "-")}-${theme}-${width}.png`, fullPage: true });
      await context.close();
      await server.close();
    }
  }
}
await chromium.close();
