// Goal: the page does what it says with a real daemon: the whole bad day, a new array, two readers at once, a crash of the server, many drives.
// Method: `stria daemon` on image files in a folder with a hostile name, clients that write and check all the time, a real Chromium.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { axe, browser, open, sticking_out } from "./browser.mjs";
import { Machine, until } from "./machine.mjs";

let chromium;
before(async () => {
  chromium = await browser();
});
after(() => chromium.close());

/** Runs `work` on a machine, with as many readers as asked for; none of them may have met a fault. */
async function on(prepare, readers, work) {
  const machine = new Machine();
  const tabs = [];
  try {
    await prepare(machine);
    await machine.start();
    for (let index = 0; index < readers; index += 1) tabs.push(await open(chromium, await machine.url()));
    await work(machine, ...tabs.map((tab) => tab.page));
    for (const tab of tabs) assert.deepEqual(tab.faults, []);
  } catch (error) {
    if (process.env.STRIA_PICTURES) for (const [index, tab] of tabs.entries()) await tab.page.screenshot({ path: `${process.env.STRIA_PICTURES}/failed-${index}.png`, fullPage: true });
    console.error(machine.log?.() ?? "");
    throw error;
  } finally {
    for (const tab of tabs) await tab.context.close();
    await machine.close();
  }
}

const headline = (page, name) => page.getByRole("heading", { level: 1, name }).waitFor();
const dialog = (page) => page.getByRole("dialog");
const press = (page, name) => page.getByRole("button", { name, exact: true }).click();
const closed = (page) => dialog(page).getByRole("button", { name: "Close" }).last().click();
const followed = (page) => dialog(page).getByText(/Done at \d/).waitFor();

test("the bad day: a drive is lost under load, found, explained, replaced and rebuilt, and the reader knows until when", async () => {
  let drives;
  const prepare = (machine) => {
    drives = [0, 1, 2, 3].map((index) => machine.image(`drive-${index}.img`));
    machine.image("new.img");
    machine.array("tank", "5", drives);
  };
  await on(prepare, 1, async (machine, page) => {
    await headline(page, "All is well.");
    const load = machine.load("tank");
    machine.stria("speed", "tank", "--max", "8M");
    machine.lose(drives[2]);
    await headline(page, "Array tank has lost a drive. All data is there, but one more failure loses it.");
    const matter = page.locator(".case").first();
    assert.equal(await matter.locator(".bay.marked .bay-slot").innerText(), "2");
    const told = await matter.innerText();
    for (const words of [drives[2], "the next failure loses data", "once a drive is added", "Do not pull a drive before you have compared its serial number."]) assert.ok(told.includes(words), `${words} in: ${told}`);
    assert.deepEqual([await axe(page), await sticking_out(page)], [[], []]);

    await press(page, "Add a drive: show the plan");
    await dialog(page).getByRole("radio", { name: /new\.img/ }).check();
    await press(page, "Show the plan");
    const written = dialog(page).getByRole("row", { name: /new\.img/ });
    await written.waitFor();
    await press(page, "Do it");
    // Until when: in the window, and on the first screen below it.
    await dialog(page).getByRole("progressbar", { name: "Rebuild" }).waitFor();
    await dialog(page).getByText(/Done at about \d\d:\d\d, in/).waitFor();
    await page.locator("h1", { hasText: "Until that ends, one more failure loses data." }).waitFor({ state: "attached" });
    machine.stria("speed", "tank", "--max", "1G");
    await followed(page);
    await closed(page);

    await headline(page, "Array tank is complete again. The failed drive can be taken out.");
    await press(page, "Remove: show the plan");
    await press(page, "Do it");
    await followed(page);
    await closed(page);
    await headline(page, "All is well.");

    await page.getByRole("link", { name: "tank" }).click();
    await press(page, "Scrub…");
    await press(page, "Do it");
    await followed(page);
    await closed(page);
    await page.getByRole("link", { name: /^Now/ }).click();
    await page.getByText(/Last scrub .* all redundancy matches/).waitFor();
    await load.stop();
    assert.equal(machine.status("tank").health, "optimal");

    await page.getByRole("link", { name: "Activity" }).click();
    await page.getByRole("checkbox", { name: /Only orders/ }).check();
    await page.locator(".events li").first().waitFor();
  });
});

test("an array is made in three steps and is there; it is stopped and destroyed only with its name", async () => {
  const prepare = (machine) => ["a", "b", "c", "d"].map((name) => machine.image(`${name}.img`));
  await on(prepare, 1, async (machine, page) => {
    await headline(page, "There is no array yet.");
    await page.getByRole("link", { name: "Create an array" }).click();
    await page.getByRole("checkbox").nth(3).waitFor();
    for (const box of await page.getByRole("checkbox").all()) await box.check();
    await press(page, "Next");
    await page.getByText("How shall 4 drives keep data?").waitFor();
    await page.getByRole("radio", { name: /^RAID 10/ }).check();
    await press(page, "Next");
    await page.getByRole("textbox").fill("lake");
    await press(page, "Show the plan");
    await dialog(page).getByRole("row", { name: /a\.img/ }).waitFor();
    await press(page, "Do it");
    await followed(page);
    await closed(page);
    assert.equal(machine.status("lake").level, "10");
    await page.getByRole("link", { name: "Arrays" }).click();
    await page.getByRole("link", { name: "lake" }).click();
    await press(page, "Stop…");
    await press(page, "Do it");
    await followed(page);
    await closed(page);
    await press(page, "Destroy…");
    const go = dialog(page).getByRole("button", { name: "Do it" });
    await go.waitFor();
    assert.ok(await go.isDisabled());
    await dialog(page).getByRole("textbox").fill("lake");
    await go.click();
    await followed(page);
    await closed(page);
    await page.getByRole("link", { name: /^Now/ }).click();
    await headline(page, "There is no array yet.");
  });
});

test("two readers see the same; a plan that the other's order has overtaken is not carried out", async () => {
  let drives;
  const prepare = (machine) => {
    drives = [0, 1].map((index) => machine.image(`drive-${index}.img`));
    machine.image("new.img");
    machine.array("pool", "1", drives);
  };
  await on(prepare, 2, async (machine, one, other) => {
    machine.stria("fail", "pool", drives[1], "--force");
    for (const page of [one, other]) {
      await headline(page, /^Array pool has lost a drive/);
      await press(page, "Add a drive: show the plan");
      await dialog(page).getByRole("radio", { name: /new\.img/ }).check();
      await press(page, "Show the plan");
      await dialog(page).getByRole("row", { name: /new\.img/ }).waitFor();
    }
    await press(one, "Do it");
    await followed(one);
    await press(other, "Do it");
    await dialog(other).getByRole("alert").waitFor();
    await press(other, "Make a new plan");
    // The drive is in use now: the server says so instead of a plan.
    await dialog(other).getByRole("alert").waitFor();
    await other.keyboard.press("Escape");
    for (const page of [one, other]) await page.locator("h1", { hasText: "Array pool is complete again." }).waitFor({ state: "attached" });
  });
});

test("a daemon that crashes is named with the time since, and its state is the present again after its restart", async () => {
  const prepare = (machine) => machine.array("pool", "1", [0, 1].map((index) => machine.image(`drive-${index}.img`)));
  await on(prepare, 1, async (machine, page) => {
    await headline(page, "All is well.");
    await machine.end("SIGKILL");
    await page.getByText(/No answer since \d\d:\d\d/).waitFor();
    await machine.start();
    await until("the banner to go", async () => (await page.getByText(/No answer since/).count()) === 0);
    await headline(page, "All is well.");
  });
});

test("24 drives in four arrays stand on one screen, and nothing sticks out", async () => {
  const prepare = (machine) => {
    for (const [index, name] of ["tank", "lake", "pond", "well"].entries()) {
      machine.array(name, "6", [0, 1, 2, 3, 4, 5].map((drive) => machine.image(`drive-${index}-${drive}.img`, 32 << 20)));
    }
  };
  await on(prepare, 1, async (_machine, page) => {
    await headline(page, "All is well.");
    await page.getByText("4 arrays of 24 drives are complete and served.").waitFor();
    for (const place of ["", "arrays", "drives", "arrays/pond"]) {
      await page.goto(`${page.url().split("#")[0]}#/${place}`);
      if (place === "drives") await page.locator(".drives > li").nth(23).waitFor();
      for (const width of [390, 820, 1440]) {
        await page.setViewportSize({ width, height: 900 });
        assert.deepEqual(await sticking_out(page), [], `${place} at ${width}`);
      }
      assert.deepEqual(await axe(page), [], place);
    }
  });
});
