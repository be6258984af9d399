// Goal: every screen can be read and used by everybody: in both themes, three widths and three languages, by keyboard, with a screen
// reader; hostile names do nothing; a server that is gone is never shown as if it were there.
// Method: the bundle as it ships, on invented machines (`mock.mjs`), in a real Chromium.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { axe, browser, open, sticking_out } from "./browser.mjs";
import { SCENES, mock } from "./mock.mjs";

let chromium;
before(async () => {
  chromium = await browser();
});
after(() => chromium.close());

/** Opens a scene, runs `work`, and asserts that nothing went wrong on the way. */
async function on(scene, work, { place = "", ...options } = {}) {
  const server = await mock(scene);
  const { page, faults, context } = await open(chromium, `${server.url}#/${place}`, options);
  try {
    await work(page, server);
    assert.deepEqual(faults, []);
  } finally {
    await context.close();
    await server.close();
  }
}

const PLACES = [["well", ""], ["empty", ""], ["degraded", ""], ["rebuilding", ""], ["many", ""], ["hostile", ""], ["many", "arrays"], ["degraded", "arrays/tank"], ["many", "drives"], ["empty", "create"], ["degraded", "activity"], ["degraded", "alarms"], ["degraded", "settings"]];

for (const [width, colorScheme, locale] of [[390, "dark", "de-DE"], [1440, "light", "ru-RU"]]) {
  test(`no screen has a fault that axe finds, or sticks out: ${colorScheme}, ${locale}`, async () => {
    for (const [scene, place] of PLACES) {
      await on(
        scene,
        async (page) => {
          // What is folded counts as well.
          for (const fold of await page.locator("summary").all()) await fold.click();
          assert.deepEqual(await axe(page), [], `${scene} ${place}`);
          for (const width of [390, 820, 1440]) {
            await page.setViewportSize({ width, height: 900 });
            assert.deepEqual(await sticking_out(page), [], `${scene} ${place} at ${width}`);
          }
        },
        { place, viewport: { width, height: 900 }, colorScheme, locale },
      );
    }
  });
}

test("the first screen says what is wrong, since when, which drive, what to do, and what not to do", async () => {
  await on("degraded", async (page) => {
    await page.getByRole("heading", { level: 1, name: "Array tank has lost a drive. All data is there." }).waitFor();
    const case_ = page.locator(".case").first();
    const text = await case_.innerText();
    for (const words of ["17 min ago", "S64HNE0T510742", "any one drive", "once a drive is added", "I/O error", "Do not pull a drive before you have compared its serial number"]) {
      assert.ok(text.includes(words), `${words} in: ${text}`);
    }
    assert.equal(await case_.locator(".bay.marked .bay-slot").innerText(), "3");
    assert.match(await page.title(), /^\(1\) /);
  });
});

test("all well is said with its reasons", async () => {
  await on("well", async (page) => {
    await page.getByRole("heading", { level: 1, name: "All is well." }).waitFor();
    const text = await page.locator(".reasons").innerText();
    for (const words of ["Survives the failure of any 2 drives", "1 spare ready", "all redundancy matches", "7% of its endurance"]) assert.ok(text.includes(words), `${words} in: ${text}`);
  });
});

test("twenty-four drives in four arrays: the worst first, each with its drive", async () => {
  await on("many", async (page) => {
    await page.getByRole("heading", { level: 1, name: /Array lake has lost a drive/ }).waitFor();
    assert.equal(await page.locator(".case > summary").count(), 2);
    await page.getByRole("link", { name: "Drives" }).click();
    await page.locator(".drives > li").nth(23).waitFor();
    await page.getByText("103 % of the rated endurance is used").waitFor();
  });
});

test("what only the server knows is shown in its own words, beside what the page explains itself", async () => {
  const text = "tank has no spare, and should have 1";
  const matter = { array: "tank", urgency: "warning", what: text, means: "a rebuild waits for a person", action: "add a drive", avoid: "do not take another array's", since_ms: Date.now() - 7_200_000, drives: [], remedies: [{ action: "add", array: "tank", drive: "", span: null }] };
  const alarms = [{ event: "SparesMissing", array: "tank", component: "", text, since_s: matter.since_ms / 1000 }];
  SCENES.spareless = () => ({ ...SCENES.degraded(), matters: [matter], alarms });
  await on("spareless", async (page) => {
    const fold = page.locator("summary", { hasText: text });
    await fold.click();
    await page.getByText("do not take another array's").waitFor();
    assert.equal(await page.locator("details .facts").innerText().then((words) => words.includes("2 h 0 min ago")), true);
    await page.getByRole("link", { name: "Alarms" }).click();
    await page.getByText(text).waitFor();
    await page.getByRole("button", { name: "Send a test" }).click();
    await page.getByText("connection refused").waitFor();
  });
});

test("the keyboard alone reaches the plan, confirms it and returns", async () => {
  await on("degraded", async (page, server) => {
    const press = async (name) => {
      for (let steps = 0; steps < 60; steps += 1) {
        await page.keyboard.press("Tab");
        const focused = await page.evaluate(() => document.activeElement?.textContent ?? "");
        if (name.test(focused)) return page.keyboard.press("Enter");
      }
      throw new Error(`no Tab reaches ${name}`);
    };
    await press(/^Add a drive: show the plan$/);
    await page.getByRole("dialog").waitFor();
    await press(/^Show the plan$/);
    await page.getByText("What will be written where").first().waitFor();
    await press(/^Do it$/);
    await page.getByText(/Done at \d/).waitFor();
    const asked = server.asked.find((one) => one.path === "/api/v1/jobs");
    assert.equal(JSON.parse(asked.body.token).drive, "/dev/nvme12n1");
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    assert.match(await page.evaluate(() => document.activeElement?.textContent ?? ""), /Add a drive/);
  });
});

test("what loses data is done only when the name was typed", async () => {
  await on(
    "hostile",
    async (page, server) => {
      await page.getByRole("button", { name: "Destroy" }).click();
      const go = page.getByRole("dialog").getByRole("button", { name: "Do it" });
      await go.waitFor();
      assert.ok(await go.isDisabled());
      await page.getByRole("dialog").getByRole("textbox").fill("another");
      assert.ok(await go.isDisabled());
      assert.deepEqual(await axe(page), []);
      await page.getByRole("dialog").getByRole("textbox").fill("an-array-with-the-longest-name-31");
      await go.click();
      await page.getByText(/Done at \d/).waitFor();
      assert.equal(server.asked.at(-1).body.confirm, "an-array-with-the-longest-name-31");
    },
    { place: "arrays/an-array-with-the-longest-name-31" },
  );
});

test("hostile names are text: nothing of them runs, and none turns a sentence around", async () => {
  await on("hostile", async (page) => {
    for (const place of ["", "arrays", "drives", "activity", "settings"]) {
      await page.goto(`${page.url().split("#")[0]}#/${place}`);
      await page.locator("main h1").first().waitFor();
      const found = await page.evaluate(() => ({ made: document.querySelectorAll("main img, main script, main b b, main u, main i, main svg[onload], a[href^=javascript]").length, turned: /[‪-‮⁦-⁩]/.test(document.body.innerText) }));
      assert.deepEqual(found, { made: 0, turned: false }, place);
    }
  });
});

test("a server that is gone is named, with the time since; nothing acts meanwhile, and all comes back", async () => {
  const first = await mock("degraded");
  const { port } = new URL(first.url);
  const { page, faults, context } = await open(chromium, first.url);
  await page.getByRole("button", { name: "Add a drive: show the plan" }).waitFor();
  await first.close();
  await page.getByText(/No answer since \d\d:\d\d/).waitFor();
  assert.ok(await page.getByRole("button", { name: "Add a drive: show the plan" }).isDisabled());
  assert.match(await page.title(), /^No answer/);
  assert.deepEqual(await axe(page), []);
  const second = await mock("well", Number(port));
  await page.getByRole("heading", { level: 1, name: "All is well." }).waitFor();
  assert.equal(await page.getByText(/No answer since/).count(), 0);
  assert.deepEqual(faults, []);
  await context.close();
  await second.close();
});

test("a reader who may only look finds everything, and every button that acts closed", async () => {
  SCENES.looker = () => ({ ...SCENES.degraded(), user: { name: "guest", role: "view", via: "token" } });
  await on("looker", async (page) => {
    const button = page.getByRole("button", { name: "Add a drive: show the plan" });
    await button.waitFor();
    assert.ok(await button.isDisabled());
    assert.equal(await button.getAttribute("title"), "Your role may only look");
  });
});

test("an array is made in three steps, each with what it gives", async () => {
  await on(
    "empty",
    async (page, server) => {
      for (const box of await page.getByRole("checkbox").all()) await box.check();
      await page.getByRole("button", { name: "Next" }).click();
      await page.getByText("How shall 5 drives keep data?").waitFor();
      await page.getByRole("checkbox", { name: /Keep one of them as a spare/ }).check();
      assert.ok(await page.getByRole("radio", { name: /RAID 6/ }).isChecked());
      assert.deepEqual(await axe(page), []);
      await page.getByRole("button", { name: "Next" }).click();
      await page.getByRole("textbox").fill("tank/../x");
      await page.getByText("No spaces, slashes or colons.").waitFor();
      await page.getByRole("textbox").fill("tank");
      await page.getByRole("button", { name: "Show the plan" }).click();
      await page.getByText("What is lost for good").waitFor();
      const { body } = server.asked.find((one) => one.path === "/api/v1/plans");
      assert.deepEqual([body.level, body.drives.length, body.spares.length, body.name], ["6", 4, 1, "tank"]);
    },
    { place: "create" },
  );
});

test("the language and the theme that were chosen stay", async () => {
  await on(
    "well",
    async (page) => {
      await page.getByLabel("Language").selectOption("ru");
      await page.getByRole("heading", { level: 1, name: "Настройки" }).waitFor();
      await page.getByLabel("Оформление").selectOption("dark");
      await page.reload();
      await page.getByRole("heading", { level: 1, name: "Настройки" }).waitFor();
      assert.deepEqual(await page.evaluate(() => [document.documentElement.lang, document.documentElement.dataset.theme]), ["ru", "dark"]);
      await page.getByRole("link", { name: "Сейчас" }).click();
      await page.getByText("2 массива из 9 накопителей").waitFor();
    },
    { place: "settings" },
  );
});

test("every sentence of the catalogue has the same values in all languages", async () => {
  const { build } = await import("esbuild");
  const made = await build({ entryPoints: [new URL("../src/catalogue.ts", import.meta.url).pathname], bundle: true, format: "esm", write: false });
  const { catalogue } = await import(`data:text/javascript;base64,${Buffer.from(made.outputFiles[0].text).toString("base64")}`);
  const values = (text) => [...new Set([...text.matchAll(/\{(\w+)/g)].map((match) => match[1]))].sort().join();
  for (const [key, sentences] of Object.entries(catalogue)) {
    assert.equal(sentences.length, 3, key);
    const [en, de, ru] = sentences;
    assert.ok(en !== "" && de !== "" && ru !== "", key);
    assert.equal(values(de), values(en), key);
    assert.equal(values(ru), values(en), key);
    for (const forms of en.matchAll(/\{\w+\|([^}]*)\}/g)) assert.equal(forms[1].split("|").length, 2, key);
    for (const forms of ru.matchAll(/\{\w+\|([^}]*)\}/g)) assert.ok([1, 3].includes(forms[1].split("|").length), key);
  }
});
