// Goal: every screen can be read and used by everybody: in both themes, three widths and three languages, by keyboard, with a screen
// reader; hostile names do nothing; a server that is gone is never shown as if it were there.
// Method: the bundle as it ships, on invented machines (`mock.mjs`), in a real Chromium.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { axe, browser, open, sticking_out } from "./browser.mjs";
import { SCENES, drive, matter, member, mock, view } from "./mock.mjs";
import { visit } from "./paint.mjs";
import { bad_day } from "./words.mjs";

let chromium;
before(async () => {
  chromium = await browser();
});
after(() => chromium.close());

/** Opens a scene, runs `work`, and asserts that nothing went wrong on the way. */
async function on(scene, work, { below = "", place = "", ...options } = {}) {
  const server = await mock(scene);
  const { page, faults, context } = await open(chromium, `${server.url}${below}#/${place}`, options);
  try {
    await work(page, server);
    assert.deepEqual(faults, []);
  } finally {
    await context.close();
    await server.close();
  }
}

/** Text as a reader sees it: no line ends at some of its spaces. */
const spaced = (text) => text.replaceAll("\u00a0", " ");

/** Waits until the tab has this title: the machine's name is told later than its state. */
const titled = (page, title) => page.waitForFunction((title) => document.title === title, title);

/** A matter of a gap that a drive fills. */
const lost = (array, more) => matter(array, "degraded", "critical", { remedies: [{ action: "add", array, drive: "", span: null }], ...more });

/** The last request at a path, once there is one. */
async function until_asked(server, path, is_it = () => true) {
  for (let tries = 0; tries < 400; tries += 1) {
    const asked = server.asked.findLast((one) => one.path === path && is_it(one.body));
    if (asked) return asked;
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
  throw new Error(`nothing was asked at ${path}`);
}

const PLACES = [["well", ""], ["empty", ""], ["degraded", ""], ["two", ""], ["rebuilding", ""], ["failed", ""], ["silent", ""], ["unseen", ""], ["paused", ""], ["read_only", ""], ["member_silent", ""], ["mismatch", ""], ["images", ""], ["many", ""], ["hostile", ""], ["hostile", "arrays"], ["hostile", `arrays/${encodeURIComponent(SCENES.hostile().arrays[0].name)}`], ["hostile", "drives"], ["hostile", "create"], ["hostile", "activity"], ["hostile", "alarms"], ["hostile", "settings"], ["many", "arrays"], ["degraded", "arrays/tank"], ["rebuilding", "arrays/tank"], ["failed", "arrays/tank"], ["silent", "arrays/tank"], ["unseen", "arrays"], ["many", "drives"], ["shared", "arrays"], ["shared", "drives"], ["stopped", "arrays/tank"], ["empty", "create"], ["degraded", "activity"], ["degraded", "alarms"], ["degraded", "settings"], ["told", ""], ["told", "arrays"], ["told", "arrays/lake"], ["told", "activity"], ["told", "alarms"]];

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
    // The drives are told later than the state.
    await case_.getByText(/is free and fits/).waitFor();
    const has = async (part, all) => {
      const text = await part.innerText().then(spaced);
      for (const words of all) assert.ok(text.includes(words), `${words} in: ${text}`);
    };
    await has(page.locator(".verdict"), ["17 min ago", "It survives 1 more failure."]);
    await has(case_, ["S64HNE0T510742", "bay 7 of SuperMicro JBOF 1", "nvme12n1 is free and fits: press the button.", "Do not pull any other drive."]);
    assert.equal(await case_.getByText("I/O error").isVisible(), false, "what nobody has to read first is folded");
    await case_.getByText("Details").click();
    await has(case_, ["any one drive", "I/O error", "/dev/nvme3n1", "See tank"]);
    assert.equal(await case_.locator(".bay.marked .bay-slot").innerText().then(spaced), "3");
    assert.match(await page.title(), /^\(1\) /);
  });
  // Where no free drive fits, one is to be fetched.
  for (const change of [{ size_bytes: 1e12 }, { kind: "hdd" }, { pool: true }]) {
    SCENES.no_free = () => {
      const scene = SCENES.degraded();
      Object.assign(scene.drives.find((drive) => drive.path === "/dev/nvme12n1"), change);
      return scene;
    };
    await on("no_free", async (page) => {
      await page.getByText("Put it in again if it was only loose, else a new one of at least 3.5 TiB (3840 GB).").waitFor();
      assert.equal(await page.getByText("is free and fits").count(), 0);
    });
  }
});

test("where a free drive is at hand, two presses and few words lead to the order, its plan says how long it takes, and the first screen until when", async () => {
  await on("degraded", async (page, server) => {
    const { words, presses, told, after } = await bad_day(page, server);
    assert.ok(words <= 130 && after <= 100 && presses === 2, `${words} words and ${presses} presses to the order, ${after} words after it`);
    assert.match(told, /^Add a drive – tank\s+Step 1 of 2\s+nvme12n1 is filled with what tank lacks. It takes about 1\sh 20\smin \(an estimate\), until about (?:\d{1,2} \w+, )?\d\d:\d\d\./);
    const plan = server.asked.find(({ path }) => path === "/api/v1/plans").body;
    assert.deepEqual([plan.action, plan.drive], ["add", "/dev/nvme12n1"]);
    const verdict = await page.locator(".verdict").innerText().then(spaced);
    assert.match(verdict, /Complete again at about (?:\d{1,2} \w+, )?\d\d:\d\d\./);
    const said = await page.locator("article.case").innerText().then(spaced);
    for (const part of ["You may go home: it goes on by itself.", "Afterwards pull nvme3n1: bay 7 of SuperMicro JBOF 1, serial number S64HNE0T510742."]) assert.ok(said.includes(part), `${part} in: ${said}`);
  });
  // A drive that is dying but works is copied in the same two presses.
  SCENES.dying = () => {
    const scene = SCENES.well();
    scene.matters = [matter("tank", "DriveReplace", "critical", { drives: ["/dev/nvme2n1"], remedies: [{ action: "replace", array: "tank", old: "/dev/nvme2n1", new: "" }] })];
    return scene;
  };
  await on("dying", async (page) => {
    await page.getByText("nvme12n1 is free and fits: press the button, and this drive is copied to it.").waitFor();
    await page.getByRole("button", { name: "Copy it to nvme12n1: show the plan" }).click();
    const window = page.getByRole("dialog");
    await window.getByText(/^nvme2n1 is copied to nvme12n1, which takes its place. It takes about 1\sh 20\smin/).waitFor();
    await window.getByText("What will be written where").first().click();
    await window.getByText("as usual for such drives").waitFor();
    assert.deepEqual([await axe(page), await sticking_out(page)], [[], []]);
    // Another drive may be chosen all the same.
    await window.getByRole("button", { name: "Choose another drive" }).click();
    await window.locator(".choice").first().waitFor();
  });
});

test("an array without a spare gets one from the first screen, or says which drive to buy; drives stand in one row, and the width is used", async () => {
  await on("well", async (page, server) => {
    await page.getByRole("button", { name: "Add nvme12n1 as a spare… pool" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Do it" }).waitFor();
    const { body } = server.asked.find(({ path }) => path === "/api/v1/plans");
    assert.deepEqual([body.action, body.array, body.drive], ["add", "pool", "/dev/nvme12n1"]);
    assert.equal(await page.getByRole("button", { name: /as a spare… tank/ }).count(), 0, "it has one");
  });
  SCENES.nothing_free = () => {
    const scene = SCENES.well();
    return { ...scene, drives: scene.drives.filter(({ free }) => !free) };
  };
  await on("nothing_free", (page) => page.getByText("None is free here: one of at least 3.5 TiB (3840 GB) fits.").waitFor());
  await on("degraded", async (page) => {
    await page.locator(".case .bay").first().waitFor();
    for (const width of [1024, 1280, 1920]) {
      await page.setViewportSize({ width, height: 900 });
      const tops = await page.locator("article.case .bay").evaluateAll((bays) => bays.map((bay) => bay.getBoundingClientRect().top));
      assert.equal(new Set(tops).size, 1, `the drives stand in one row at ${width}`);
    }
    const right = await page.locator(".reasons .card").last().evaluate((card) => card.getBoundingClientRect().right);
    assert.ok(right > 1920 * 0.94, `the cards end at ${right} of 1920`);
  });
  await on("stopped", (page) => page.locator("select option", { hasText: "stays; shown once it is started" }).first().waitFor({ state: "attached" }), { place: "arrays/tank" });
});

test("without scrolling a small screen shows the sentence, the drive, the way out and its button; a phone the sentence and the button", async () => {
  SCENES.no_free = () => {
    const scene = SCENES.degraded();
    return { ...scene, drives: scene.drives.filter((drive) => drive.path !== "/dev/nvme12n1") };
  };
  SCENES.worn = () => {
    const scene = SCENES.many();
    return { ...scene, matters: scene.matters.slice(1) };
  };
  const sentence = [".verdict h1", ".verdict p"];
  const way_out = [...sentence, "article.case .identity .mono", "article.case .do-dont ol li:last-child"];
  const windows = [[1024, 768, way_out], [1280, 720, way_out], [390, 844, sentence], [360, 640, sentence]];
  SCENES.two_no_free = () => {
    const scene = SCENES.two();
    return { ...scene, drives: scene.drives.filter((drive) => drive.path !== "/dev/nvme12n1") };
  };
  for (const scene of ["degraded", "no_free", "bare", "many", "worn", "two", "two_no_free"]) {
    for (const locale of ["en-GB", "de-DE", "ru-RU"]) {
      const look = async (page) => {
        const button = page.locator(".case button.primary").first();
        await button.waitFor();
        for (const [width, height, parts] of windows) {
          await page.setViewportSize({ width, height });
          // Nothing lies over the button, and its row covers none of these parts.
          const { bar, over, below } = await button.evaluate((button, parts) => {
            const box = button.getBoundingClientRect();
            const bar = button.closest(".buttons").getBoundingClientRect().top;
            const over = document.elementFromPoint(box.left + box.width / 2, box.bottom - 2);
            const bottoms = (part) => [...document.querySelectorAll(part)].map((one) => one.getBoundingClientRect().bottom);
            return { bar, over: over === button || button.contains(over), below: parts.filter((part) => bottoms(part).length === 0 || bottoms(part).some((bottom) => bottom > bar)) };
          }, parts);
          assert.deepEqual([over, below], [true, []], `${scene}, ${width} x ${height}, ${locale}: the button's row begins at ${bar}`);
        }
      };
      await on(scene, look, { locale });
    }
  }
  // What the keyboard reaches is not hidden by the row.
  const reach = async (page) => {
    const place = page.locator(".reasons a").first();
    await place.focus();
    assert.ok(await place.evaluate((link) => link.contains(document.elementFromPoint(link.getBoundingClientRect().left + 3, link.getBoundingClientRect().top + 5))));
  };
  await on("degraded", reach, { viewport: { width: 390, height: 700 } });
});

test("drives that do not fit in one row stand in two that are equally full", async () => {
  for (const [scene, viewport, rows] of [["many", { width: 1280, height: 900 }, [3, 3]], ["many", { width: 820, height: 900 }, [6]], ["shared", { width: 1280, height: 900 }, [4, 3]]]) {
    const look = async (page) => {
      const tops = await page.locator(".bays").first().locator(".bay").evaluateAll((bays) => bays.map((bay) => bay.offsetTop));
      assert.deepEqual([...new Set(tops)].map((top) => tops.filter((one) => one === top).length), rows, `${scene} at ${viewport.width}`);
    };
    await on(scene, look, { place: "arrays", viewport });
  }
});

test("two lost drives stand below each other, each with its serial number and place; the reason names drives, not long paths", async () => {
  await on("two", async (page) => {
    await page.getByRole("heading", { level: 1, name: "Array tank has lost 2 drives. All data is there, but one more failure loses it." }).waitFor();
    // The places of drives are told later than the state.
    for (const bay of [7, 9]) await page.locator(".case .identity").getByText(`bay ${bay} of SuperMicro JBOF 1`).waitFor();
    const shown = await page.locator(".case .identity").allInnerTexts().then((all) => all.map(spaced));
    assert.equal(shown.length, 2);
    for (const [index, words] of [["Slot 3", "failed", "S64HNE0T510742", "bay 7 of SuperMicro JBOF 1", "nvme3n1"], ["Slot 5", "failed", "S64HNE0T511016", "bay 9 of SuperMicro JBOF 1", "nvme5n1"]].entries()) {
      for (const word of words) assert.ok(shown[index].includes(word), `${word} in: ${shown[index]}`);
    }
    assert.equal(await page.locator(".case .bay.marked").count(), 2);
    await page.getByText("Leave the failed drives in until the array is complete.").waitFor();
    await page.locator("article.case").getByText("Details").click();
    await page.getByText("nvme3n1: write of 128 KiB at sector 2097152 failed: I/O error; nvme5n1: the drive is gone", { exact: true }).waitFor();
  });
});

test("where no free drive is here, the window says so; a removed drive is still told by its place and serial number", async () => {
  SCENES.full = () => {
    const scene = SCENES.degraded();
    return { ...scene, drives: scene.drives.filter((drive) => drive.path !== "/dev/nvme12n1") };
  };
  await on("full", async (page) => {
    await page.getByRole("button", { name: "Add a drive: show the plan" }).click();
    await page.getByRole("dialog").getByText("No free drive is here. Put one in, then look again.").waitFor();
    await page.getByRole("dialog").getByText("Failed in tank: choose it only if it was loose.").waitFor();
    assert.ok(await page.getByRole("button", { name: "Show the plan", exact: true }).isDisabled(), "nothing is chosen for the reader");
  });
  SCENES.removable = () => {
    const scene = SCENES.degraded();
    scene.matters = [matter("tank", "replaced", "notice", { drives: ["/dev/nvme3n1"], remedies: [{ action: "remove", array: "tank", drive: "/dev/nvme3n1" }] })];
    return scene;
  };
  const remove = async (page) => {
    await page.getByRole("button", { name: "Remove: show the plan" }).click();
    await page.getByRole("button", { name: "Do it" }).click();
    await page.getByText("Now take nvme3n1 out of the server: bay 7 of SuperMicro JBOF 1, serial number S64HNE0T510742.").waitFor();
    // Behind the window the page goes back to its headline.
    await page.getByRole("dialog").getByRole("button", { name: "Close" }).last().click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    assert.equal(await page.evaluate(() => scrollY), 0);
  };
  await on("removable", remove, { viewport: { width: 390, height: 700 } });
});

test("a drive that was removed from an array that still lacks it is named: from events, from the daemon's memory, in the machine or not", async () => {
  const removed = (change) => () => {
    const scene = SCENES.bare();
    const { view } = scene.arrays[0];
    view.members = view.members.filter((member) => member.role !== "failed");
    scene.matters = [lost("tank", { since_ms: Date.now() - 17 * 60_000 })];
    const dead = scene.drives.find(({ path }) => path === "/dev/nvme3n1");
    Object.assign(dead, { member: null, carries: [], error: "it cannot be read" });
    change(scene, view);
    return scene;
  };
  Object.assign(SCENES, {
    removed_here: removed(() => undefined),
    removed_gone: removed((scene) => (scene.drives = scene.drives.filter(({ path }) => path !== "/dev/nvme3n1"))),
    remembered: removed((scene, view) => {
      scene.events = [];
      view.last_drives = [{ slot: 3, path: "/dev/nvme3n1", serial: "S64HNE0T510742", place: "slot 7 of enclosure 3" }];
      scene.drives = scene.drives.filter(({ path }) => path !== "/dev/nvme3n1");
    }),
    forgotten: removed((scene) => (scene.events = [])),
  });
  for (const [scene, words] of [
    ["removed_here", ["Slot 3", "was here last", "S64HNE0T510742", "bay 7 of SuperMicro JBOF 1", "Failed at", "It is still in the server: take it out."]],
    ["removed_gone", ["Slot 3", "nvme3n1", "/dev/nvme3n1", "Failed at", "The server does not see it any more."]],
    ["remembered", ["S64HNE0T510742", "slot 7 of enclosure 3", "The server does not see it any more."]],
    ["forgotten", ["The drive of slot 3 is not here, and was not seen since the server started."]],
  ]) {
    await on(scene, async (page) => {
      const which = page.locator("article.case .which");
      for (const word of words) await which.getByText(word).first().waitFor();
      assert.equal(await which.getByText("was not seen since").count(), scene === "forgotten" ? 1 : 0);
      assert.deepEqual([await axe(page), await sticking_out(page)], [[], []]);
    });
  }
});

test("a stop that takes the disk from clients asks for the name, one that troubles nobody does not", async () => {
  SCENES.unused = () => {
    const scene = SCENES.well();
    scene.arrays[0].view.clients = [];
    return scene;
  };
  for (const [scene, force] of [["well", true], ["unused", false]]) {
    await on(
      scene,
      async (page, server) => {
        await page.getByRole("button", { name: "Stop…" }).click();
        assert.deepEqual((await until_asked(server, "/api/v1/plans")).body, { action: "stop", array: "tank", force });
        const go = page.getByRole("dialog").getByRole("button", { name: "Do it" });
        await go.waitFor();
        assert.equal(await go.isDisabled(), force);
        assert.equal(await page.getByRole("dialog").locator("button.danger").count(), force ? 1 : 0);
      },
      { place: "arrays/tank" },
    );
  }
});

test("a member is failed by a button only if it is silent and the array can do without it", async () => {
  const waits = (change) => () => {
    const scene = SCENES.bare();
    Object.assign(scene.arrays[0].view.members[1], change);
    return scene;
  };
  Object.assign(SCENES, { moment: waits({ waiting_ms: 40 }), needed: waits({ waiting_ms: 9000, needed: true }), spared: waits({ waiting_ms: 9000 }) });
  for (const [scene, buttons, words] of [["moment", 0, null], ["needed", 0, "It cannot be failed: the array needs it."], ["spared", 1, "no answer for 9 s"]]) {
    await on(
      scene,
      async (page) => {
        const row = page.getByRole("row", { name: /nvme1n1/ });
        await row.waitFor();
        if (words) await row.getByText(words).waitFor();
        else assert.equal(await row.getByText("no answer").count(), 0);
        assert.equal(await row.getByRole("button", { name: /^Fail a drive/ }).count(), buttons);
        assert.deepEqual([await axe(page), await sticking_out(page)], [[], []]);
      },
      { place: "arrays/tank" },
    );
  }
});

test("a failed drive is offered last and with a warning; a new one in its place is named as new, and chosen", async () => {
  await on("degraded", async (page) => {
    await page.getByRole("button", { name: "Add nvme12n1: show the plan" }).click();
    const window = page.getByRole("dialog");
    await window.getByRole("button", { name: "Choose another drive" }).click();
    const choices = window.locator(".choice");
    await choices.nth(2).waitFor();
    assert.deepEqual(await choices.locator("strong").allInnerTexts().then((all) => all.map(spaced)), ["/dev/nvme12n1", "/dev/nvme13n1", "/dev/nvme3n1"]);
    await window.getByRole("radio", { name: /nvme3n1/ }).check();
    await window.getByRole("button", { name: "Show the plan", exact: true }).click();
    await window.getByText(/nvme3n1 has failed in this array before. Failed at .* If it was not only loose, it will fail again/).waitFor();
    assert.deepEqual(await axe(page), []);
  });
  SCENES.exchanged = () => {
    const scene = SCENES.degraded();
    scene.drives = scene.drives.filter(({ path }) => path !== "/dev/nvme12n1");
    Object.assign(scene.drives.find(({ path }) => path === "/dev/nvme3n1"), { free: true, carries: [] });
    return scene;
  };
  await on("exchanged", async (page) => {
    await page.getByText("nvme3n1 is free and fits").waitFor();
    await page.getByRole("button", { name: "Add nvme3n1: show the plan" }).click();
    await page.getByRole("button", { name: "Choose another drive" }).click();
    await page.getByText("Nothing lies on it: a new drive where the failed one of tank was").waitFor();
    assert.ok(await page.getByRole("radio", { name: /nvme3n1/ }).isChecked());
    await page.getByRole("button", { name: "Show the plan", exact: true }).click();
    await page.getByText("What will be written where").first().waitFor();
    assert.equal(await page.getByText("has failed in this array before").count(), 0);
  });
});

test("a drive without a serial number is found by its name; nobody is sent for one that is out, nor told to leave it in", async () => {
  const files = (change) => () => {
    const scene = SCENES.bare();
    for (const one of [...scene.arrays[0].view.members, ...scene.drives]) Object.assign(one, { serial: null });
    change(scene);
    return scene;
  };
  const is_dead = ({ path }) => path === "/dev/nvme3n1";
  const no_free = (scene) => (scene.drives = scene.drives.filter(({ path }) => path !== "/dev/nvme12n1"));
  Object.assign(SCENES, {
    unnumbered: files(no_free),
    pulled_out: files((scene) => (no_free(scene), (scene.drives = scene.drives.filter((one) => !is_dead(one))))),
    still_in: files(() => undefined),
    out_and_free: files((scene) => (scene.drives = scene.drives.filter((one) => !is_dead(one)))),
  });
  const looks = "Find nvme3n1 by its path, and take it out.";
  const leaves = "Leave the failed drive in until the array is complete.";
  for (const [scene, says, not] of [["unnumbered", [looks, "Do not pull any other drive."], [leaves]], ["pulled_out", ["Put it in again if it was only loose"], [looks, leaves]], ["still_in", [leaves, "nvme12n1 is free and fits"], [looks]], ["out_and_free", ["nvme12n1 is free and fits"], [looks, leaves]]]) {
    await on(scene, async (page) => {
      const one = page.locator("article.case");
      for (const words of says) await one.getByText(words).waitFor();
      for (const words of not) await one.getByText(words).waitFor({ state: "detached" });
      assert.equal(await one.locator(".identity .big.path").innerText().then(spaced), "nvme3n1");
      assert.doesNotMatch(await one.innerText().then(spaced), /serial number/);
    });
  }
});

test("scrubs that are held are said on the first screen and on the array's page, each with the way out", async () => {
  SCENES.scrubs_held = () => {
    const scene = SCENES.well();
    Object.assign(scene.arrays[0].view, { paused: true, next_scrub_s: Math.floor(Date.now() / 1000) + 86_400 });
    return scene;
  };
  await on("scrubs_held", async (page, server) => {
    await page.getByRole("heading", { level: 1, name: "All arrays are well. Scrubs are held." }).waitFor();
    assert.equal(await page.locator(".verdict.good").count(), 0);
    const tank = page.locator(".reasons li.card", { hasText: "tank" });
    await tank.getByText("Scrubs are held: no next one").waitFor();
    assert.equal(await tank.getByText("Next scrub").count(), 0);
    assert.deepEqual([await axe(page), await sticking_out(page)], [[], []]);
    await page.getByRole("button", { name: "Resume tasks… tank" }).click();
    assert.deepEqual((await until_asked(server, "/api/v1/plans")).body, { action: "resume", array: "tank" });
    await page.keyboard.press("Escape");
    await page.getByRole("link", { name: "tank", exact: true }).click();
    await page.getByText("none begins until they are resumed").waitFor();
  });
  // What was ordered is told beside its own button.
  await on(
    "well",
    async (page) => {
      await page.getByRole("button", { name: "Pause tasks" }).click();
      const said = page.getByText("pause tank", { exact: true });
      await said.waitFor();
      assert.ok(await said.evaluate((one) => one.getBoundingClientRect().bottom <= document.querySelector(".bounds").getBoundingClientRect().top));
    },
    { place: "arrays/tank" },
  );
});

test("a new array: one that lacks a drive comes first, no level is advised for one drive, and the new array follows", async () => {
  await on(
    "degraded",
    async (page, server) => {
      await page.getByText("tank lacks a drive: give it one of these first.").waitFor();
      await page.getByRole("button", { name: "Add a drive… tank" }).click();
      await page.getByRole("dialog").getByRole("radio", { name: /nvme12n1/ }).waitFor();
      await page.keyboard.press("Escape");
      await page.getByRole("checkbox", { name: /nvme12n1/ }).check();
      await page.getByRole("button", { name: "Next" }).click();
      await page.locator(".level", { hasText: "RAID 6" }).getByText("needs at least 4 drives").waitFor();
      assert.equal(await page.getByText("suggested").count(), 0);
      await page.getByRole("button", { name: "Next" }).click();
      await page.getByText("but without redundancy not corrected").waitFor();
      assert.equal(await page.getByText(/bitmap|write log/).count(), 0, "RAID 0 has neither");
      await page.getByRole("textbox").fill("pool2");
      await page.getByRole("button", { name: "Show the plan" }).click();
      await page.getByRole("dialog").getByRole("textbox").fill("pool2");
      await page.getByRole("dialog").getByRole("button", { name: "Do it" }).click();
      await page.getByText(/Done at \d/).waitFor();
      const made = SCENES.degraded();
      made.arrays.push({ ...made.arrays[1], name: "pool2" });
      server.change({ ...made, drives: made.drives.filter(({ path }) => path !== "/dev/nvme12n1") });
      await page.getByRole("dialog").getByRole("button", { name: "Close" }).last().click();
      await page.getByRole("heading", { level: 1, name: /^pool2/ }).waitFor();
    },
    { place: "create" },
  );
  SCENES.none_left = () => {
    const scene = SCENES.degraded();
    const dead = { free: false, member: null, carries: [], users: [], error: "/dev/nvme3n1 cannot be read" };
    return { ...scene, drives: [...scene.drives.filter(({ path }) => !/nvme(3|12|13)n1$/.test(path)), drive("/dev/nvme3n1", dead)] };
  };
  const nothing = async (page) => {
    await page.getByText("No drive can be chosen").waitFor();
    await page.getByText("/dev/nvme3n1 cannot be read").waitFor();
    assert.equal(await page.getByText("Which drives shall it be made of?").count(), 0);
  };
  await on("none_left", nothing, { place: "create" });
});

test("a drive that is put in while one is needed, or while drives are chosen, comes into the list by itself", async () => {
  SCENES.needs_one = () => {
    const scene = SCENES.degraded();
    return { ...scene, drives: scene.drives.filter((drive) => drive.path !== "/dev/nvme12n1") };
  };
  await on("needs_one", async (page, server) => {
    await page.getByText("Put it in again if it was only loose, else a new one").waitFor();
    server.change(SCENES.degraded());
    await page.getByText("nvme12n1 is free and fits").waitFor({ timeout: 15_000 });
  });
  const choose = async (page, server) => {
    await page.getByRole("checkbox").nth(4).waitFor();
    const next = SCENES.empty();
    server.change({ ...next, drives: [...next.drives, drive("/dev/nvme9n1")] });
    await page.getByRole("checkbox").nth(5).waitFor({ timeout: 15_000 });
  };
  await on("empty", choose, { place: "create" });
});

test("a dropped drive that no array lists any more is to be pulled, until it is gone; a new one in its place is not", async () => {
  const dropped = (index) => ({ sequence: index, time_ms: Date.now() - 3_600_000, array: "tank", kind: "member_failed", slot: 3, text: `/dev/nvme${index}n1 (slot 3) was dropped: I/O error` });
  SCENES.pulls = () => {
    const scene = SCENES.well();
    const { uuid } = scene.arrays[0];
    const old = { free: false, carries: ['a member of array "tank"'], member: { array: "tank", uuid, served: false, slot: null, role: null } };
    const dead = { free: false, kind: null, size_bytes: null, serial: null, seat: null, error: "it cannot be read" };
    const short = { free: false, carries: ["md member, version 1.2 (the md superblock is damaged: its data ends beyond the end of the member)"] };
    // One has left its superblock, one answers no more, one was cut short, one was rebuilt since, and in the place of the last one lies a new drive.
    scene.drives.push(drive("/dev/nvme20n1", old), drive("/dev/nvme21n1", dead), drive("/dev/nvme23n1", short), drive("/dev/nvme22n1"));
    scene.events.push(dropped(20), dropped(21), dropped(23), dropped(22), dropped(2));
    return scene;
  };
  await on("pulls", async (page, server) => {
    await page.getByRole("heading", { level: 1, name: "All arrays are well. Still to do: pull nvme20n1, nvme21n1 and nvme23n1." }).waitFor();
    const said = await page.locator(".pull li").allInnerTexts().then((all) => all.map(spaced));
    assert.match(said[0], /nvme20n1 bay 24 of SuperMicro JBOF 1, serial number S64HNE0T599999 dropped by tank/);
    assert.match(said[1], /nvme21n1 \/dev\/nvme21n1/);
    assert.equal(await page.locator(".verdict.good").count(), 0);
    assert.deepEqual([await axe(page), await sticking_out(page)], [[], []]);
    // Whoever pulls them sees it.
    const next = SCENES.pulls();
    server.change({ ...next, drives: next.drives.filter(({ path }) => !/2[013]n1$/.test(path)) });
    await page.getByRole("heading", { level: 1, name: "All is well." }).waitFor();
  });
  // While something is wrong, nobody is sent to pull anything else.
  SCENES.pulls_later = () => ({ ...SCENES.pulls(), matters: [lost("pool", { drives: ["/dev/nvme8n1"] })] });
  await on("pulls_later", async (page) => {
    await page.getByRole("heading", { level: 1, name: /^Array pool has lost/ }).waitFor();
    assert.equal(await page.getByText("Still to do").count(), 0);
  });
});

test("a healthy spare that leaves its array may stay in the machine, and a failed one was replaced by nobody", async () => {
  const remove = (member) => () => {
    const scene = SCENES.well();
    Object.assign(scene.arrays[0].view.members[6], member);
    scene.matters = [matter("tank", "replaced", "notice", { drives: ["/dev/nvme6n1"], remedies: [{ action: "remove", array: "tank", drive: "/dev/nvme6n1" }] })];
    return scene;
  };
  Object.assign(SCENES, { spare_out: remove({}), spare_lost: remove({ role: "failed", failure: "I/O error" }) });
  for (const [scene, count] of [["spare_out", 0], ["spare_lost", 1]]) {
    await on(scene, async (page) => {
      await page.getByRole("button", { name: "Remove: show the plan" }).click();
      await page.getByRole("button", { name: "Do it" }).click();
      await page.getByText(/Done at \d/).waitFor();
      assert.equal(await page.getByText(/^Now take nvme6n1 out of the server/).count(), count);
      if (scene === "spare_lost") assert.equal(await page.getByText("complete again").count(), 0);
    });
  }
});

test("Enter gives an order once, and what was chosen for it is no wish after it is done", async () => {
  let calls = 0;
  let release;
  const held = new Promise((resolve) => (release = resolve));
  const refuse = (method, path) => (method === "POST" && path === "/api/v1/jobs" ? ((calls += 1), { status: 409, kind: "plan_changed", message: "it has changed", wait: held }) : null);
  SCENES.twice = () => ({ ...SCENES.stopped(), refuse });
  await on(
    "twice",
    async (page) => {
      await page.getByRole("button", { name: "Destroy…" }).click();
      const name = page.getByRole("dialog").getByRole("textbox");
      await name.fill("tank");
      await name.press("Enter");
      await name.press("Enter");
      await name.press("Enter");
      release();
      await page.getByText("it has changed").waitFor();
      assert.equal(calls, 1);
    },
    { place: "arrays/tank" },
  );
  await on(
    "rebuilding",
    async (page, server) => {
      await page.getByLabel("At most").fill("9");
      await page.getByRole("button", { name: "Apply" }).click();
      await until_asked(server, "/api/v1/actions");
      await page.locator("button:disabled", { hasText: "Apply" }).waitFor();
    },
    { place: "arrays/tank" },
  );
  await on(
    "well",
    async (page) => {
      const form = page.locator("section", { has: page.getByRole("heading", { name: "Settings of the array" }) });
      await form.getByLabel("A write is acknowledged").selectOption("back");
      await form.getByRole("button", { name: "Change the settings…" }).click();
      await page.getByRole("dialog").getByRole("button", { name: "Do it" }).click();
      await page.getByText(/Done at \d/).waitFor();
      await page.keyboard.press("Escape");
      await form.locator("button:disabled", { hasText: "Change the settings" }).waitFor();
      assert.equal(await form.getByLabel("A write is acknowledged").inputValue(), "");
    },
    { place: "arrays/tank" },
  );
});

test("a job that failed has its state in the list, and seconds that count are no alert", async () => {
  SCENES.unlucky = () => ({ ...SCENES.well(), job: { state: "failed", text: "I/O error" } });
  const server = await mock("unlucky");
  const { page, faults, context } = await open(chromium, `${server.url}#/activity`);
  try {
    await page.evaluate(() => fetch("/api/v1/actions", { method: "POST", body: JSON.stringify({ action: "scrub", array: "tank" }) }));
    await page.locator(".job .pill.critical", { hasText: "failed" }).waitFor();
    await server.close();
    await page.getByText(/No answer since (?:\d{1,2} \w+, )?\d\d:\d\d/).waitFor();
    assert.doesNotMatch(await page.getByRole("alert").first().innerText().then(spaced), /\d/);
    assert.deepEqual(await axe(page), []);
    assert.deepEqual(faults, []);
  } finally {
    await context.close();
  }
});

test("a time is in the reader's zone, schedules are in the server's, and both zones are named", async () => {
  const at_s = Math.floor(Date.UTC(2026, 0, 15, 23, 30) / 1000);
  SCENES.zones = () => ({ ...SCENES.well(), zone: "Asia/Tokyo", routine_list: [{ what: "scrub", of: "tank", schedule: "weekly", running: false, interrupted: false, last_s: at_s, next_s: null, outcome: "no mismatch" }] });
  for (const [timezoneId, shown] of [["Europe/Berlin", /16 Jan.*00:30/], ["America/New_York", /15 Jan.*18:30/]]) {
    await on(
      "zones",
      async (page) => {
        await page.getByRole("cell", { name: shown }).waitFor();
        await page.getByText(`Last and next are in your time zone, ${timezoneId}`).waitFor();
        await page.getByText("Schedules and hours are in the server's, Asia/Tokyo (GMT+9).").waitFor();
        await page.getByText("In the server's time zone, Asia/Tokyo (GMT+9); empty: at any time.").waitFor();
        await page.getByRole("link", { name: "Activity" }).click();
        await page.getByText(`Times are in your time zone, ${timezoneId}`).waitFor();
        await page.getByText("A time inside a text is in the server's, Asia/Tokyo (GMT+9).").waitFor();
      },
      { place: "settings", timezoneId },
    );
  }
  // A zone that the browser does not know is shown as the server names it.
  SCENES.odd_zone = () => ({ ...SCENES.well(), zone: "Nowhere/City" });
  await on("odd_zone", async (page) => page.getByText("Schedules and hours are in the server's, Nowhere/City.").waitFor(), { place: "settings" });
});

test("a rebuild that leaves a gap sends nobody home: the gap asks for a drive", async () => {
  SCENES.gap = () => {
    const scene = SCENES.rebuilding();
    Object.assign(scene.arrays[0].view, { missing_slots: [4], losses_survived: 0 });
    scene.arrays[0].view.members = scene.arrays[0].view.members.filter((member) => member.slot !== 4);
    scene.matters = [lost("tank", { drives: ["/dev/nvme3n1"] })];
    return scene;
  };
  await on("gap", async (page) => {
    await page.getByRole("heading", { level: 1, name: "Array tank has lost 2 drives. All data is there, but one more failure loses it." }).waitFor();
    await page.getByText("The rebuild that runs fills another slot: this gap needs a drive of its own.").waitFor();
    await titled(page, "(1) matter needs you – box.example");
    await page.getByRole("button", { name: "Add a drive: show the plan" }).waitFor();
    await page.getByRole("progressbar", { name: "Rebuild" }).waitFor();
    assert.equal(await page.getByText(/Complete again|go home/).count(), 0);
  });
  await on("rebuilding", async (page) => {
    await page.getByText("Complete again").waitFor();
    await page.getByText(/go home/).waitFor();
    // Nobody is called for what goes on by itself.
    await titled(page, "Stria – box.example");
    assert.equal(await page.locator("nav .count").count(), 0);
  });
});

test("nobody is sent home while anything of the machine needs somebody, a job is held, or nobody would be told of a failure", async () => {
  const job = (scene) => ({ state: "running", task: { ...SCENES.rebuilding().arrays[0].tasks[0], array: scene.arrays[0].name }, ended_ms: null });
  SCENES.at_work = () => ({ ...SCENES.rebuilding(), job: job(SCENES.rebuilding()) });
  SCENES.gap_left = () => ({ ...SCENES.at_work(), matters: [lost("tank", { drives: ["/dev/nvme3n1"] })] });
  SCENES.held = () => {
    const scene = SCENES.at_work();
    scene.arrays[0].view.paused = true;
    return scene;
  };
  SCENES.untold_job = () => ({ ...SCENES.at_work(), told_by: [] });
  SCENES.other_array = () => {
    const scene = SCENES.at_work();
    return { ...scene, matters: [...scene.matters, lost("pool", { drives: ["/dev/nvme8n1"] })] };
  };
  const still = "the first screen says what is still to do";
  const cases = [["at_work", "You may close this page and go home", "You may go home: it goes on by itself."], ["gap_left", still, null], ["held", still, null], ["untold_job", "Nobody will be told if it fails", "nobody will be told if it fails"], ["other_array", still, "do not go home yet: something else here needs you."]];
  for (const [scene, words, first] of cases) {
    await on(
      scene,
      async (page) => {
        await page.getByRole("button", { name: "Scrub…" }).click();
        await page.getByRole("dialog").getByRole("button", { name: "Do it" }).click();
        await page.getByRole("dialog").getByText(words).waitFor();
        await page.keyboard.press("Escape");
        await page.getByRole("link", { name: /^Now/ }).click();
        if (first) await page.locator("article.case .do-dont, details.case .do-dont").getByText(first).waitFor({ state: "attached" });
      },
      { place: "arrays/tank" },
    );
  }
});

test("an alarm does not contradict the state of its array: no reassurance and no button while redundancy is lacking", async () => {
  const kinds = ["DriveReplace", "SlowMember", "SparesMissing", "FailSpare"];
  const scene = (make) => () => {
    const made = make();
    return { ...made, matters: [...made.matters, ...kinds.map((kind) => matter("tank", kind, "warning", { drives: ["/dev/nvme2n1"] }))] };
  };
  const says = { degraded: "Its array lacks redundancy already, and survives 1 more failure.", bare: "Its array has no redundancy left: one more failure loses data.", failed: "Its array has lost more drives than it can replace.", silent: "Its array does not answer, so nothing is known of its redundancy." };
  for (const [name, means] of Object.entries(says)) {
    SCENES[`alarm_${name}`] = scene(SCENES[name]);
    await on(`alarm_${name}`, async (page) => {
      const folded = page.locator("details.case");
      assert.equal(await folded.count(), kinds.length);
      for (const one of await folded.all()) {
        await one.locator("> summary").click();
        const said = await one.innerText().then(spaced);
        assert.ok(said.includes(means) && said.includes("First see to the array"), said);
        assert.ok(!/Data is safe|All data is there|Redundancy stays/.test(said), said);
      }
    });
  }
});

test("a drive that is lost and keeps its slot is drawn as lost", async () => {
  await on("failed", async (page) => {
    await page.locator(".case .bay.lost.marked").waitFor();
    assert.equal(await page.locator(".case .bay.lost .bay-slot").innerText().then(spaced), "1");
    assert.deepEqual(await page.locator(".case .identity .state").allInnerTexts().then((all) => all.map(spaced)).then((all) => all.map((text) => text.trim()).sort()), ["failed", "lost"]);
    await page.getByRole("link", { name: "tank", exact: true }).click();
    const row = page.getByRole("row", { name: /nvme1n1/ });
    await row.getByText("lost", { exact: true }).waitFor();
    assert.equal(await row.getByRole("button").count(), 0, "nothing can be done with it here");
  });
});

test("a failed drive whose slot another one has is drawn beside, however the server orders members", async () => {
  for (const is_first of [true, false]) {
    SCENES.taken = () => {
      const scene = SCENES.rebuilding();
      const { view } = scene.arrays[0];
      view.members.sort((a, b) => (Number(a.role === "failed") - Number(b.role === "failed")) * (is_first ? -1 : 1));
      scene.matters = [matter("tank", "replaced", "notice", { drives: ["/dev/nvme3n1"], remedies: [{ action: "remove", array: "tank", drive: "/dev/nvme3n1" }] })];
      return scene;
    };
    await on("taken", async (page) => {
      assert.match(await page.locator("article.case .bay.failed.marked").innerText().then(spaced), /0T510742/);
      assert.equal(await page.locator("article.case .bay").count(), 7);
    });
  }
});

test("members stand in the order of their slots, what has failed comes last; a rebuild is shown once, although a job follows it", async () => {
  SCENES.order = () => {
    const scene = SCENES.rebuilding();
    scene.arrays[0].view.members.reverse();
    return { ...scene, job: { state: "running", task: scene.arrays[0].tasks[0], ended_ms: null } };
  };
  await on("order", async (page) => {
    // An order of another reader makes the job.
    await page.evaluate(() => fetch("/api/v1/actions", { method: "POST", body: JSON.stringify({ action: "add", array: "tank" }) }));
    await page.getByRole("link", { name: "Activity" }).click();
    await page.getByRole("heading", { name: "The last orders" }).waitFor();
    await page.getByRole("link", { name: /^Now/ }).click();
    await page.getByText("Complete again").waitFor();
    assert.equal(await page.getByRole("progressbar", { name: "Rebuild" }).count(), 1);
    await page.getByRole("link", { name: "tank", exact: true }).click();
    const slots = page.locator("section", { has: page.getByRole("heading", { name: "Members", exact: true }) }).locator("tbody tr > td:first-child");
    await slots.nth(6).waitFor();
    assert.deepEqual(await slots.allInnerTexts().then((all) => all.map(spaced)), ["0", "1", "2", "3", "4", "5", "3"]);
  });
});

test("what was known of an array that does not answer is shown with its time, and nothing of one that never answered", async () => {
  await on("silent", async (page) => {
    await page.getByRole("heading", { level: 1, name: "Array tank does not answer." }).waitFor();
    await page.locator(".case .as-of", { hasText: "when the array last answered" }).waitFor();
    assert.equal(await page.getByText("More drives it may lose").count(), 0);
    await page.locator(".reasons .as-of").waitFor();
    assert.equal(await page.locator(".reasons .as-of + .ticks .sign.good, .reasons .as-of + .ticks .sign.critical").count(), 0);
    await page.getByRole("link", { name: "Arrays" }).click();
    await page.locator(".pill.critical", { hasText: "no answer" }).waitFor();
  });
  await on("unseen", async (page) => {
    const nothing = "The array has not answered since it was started. Nothing is known of its drives and its data.";
    await page.locator(".case").getByText(nothing).waitFor();
    await page.locator(".reasons").getByText(nothing).waitFor();
    assert.equal(await page.locator(".reasons li.card", { hasText: nothing }).getByText(/RAID|in sync|loses data/).count(), 0);
    await page.getByRole("link", { name: "Arrays" }).click();
    await page.locator(".pill.critical", { hasText: "no answer" }).waitFor();
    assert.equal(await page.getByText("failed", { exact: true }).count(), 0, "nobody knows that it failed");
  });
});

test("each state has its own way out: paused, read-only, a silent member, several of them", async () => {
  const scene = (kind, more, change = {}) => () => {
    const made = SCENES.degraded();
    Object.assign(made.arrays[0].view, change);
    return { ...made, matters: [matter("tank", kind, "critical", { drives: ["/dev/nvme2n1"], ...more })] };
  };
  const resume = { remedies: [{ action: "resume", array: "tank" }] };
  const fail = { remedies: [{ action: "fail", array: "tank", drive: "/dev/nvme2n1" }] };
  const whole = { health: "optimal", missing_slots: [], losses_survived: 2 };
  // The drive of the gap waits to be filled.
  const members = SCENES.rebuilding().arrays[0].view.members;
  const table = [
    ["paused", resume, { paused: true }, "Array tank has lost a drive, and its rebuild is paused.", ["Resume the array: while it is paused", "Do not leave it paused overnight."], "Resume tasks: show the plan"],
    ["paused", resume, { paused: true, missing_slots: [], members }, "Array tank has lost a drive, and its rebuild is paused.", ["it goes on where it stopped"], "Resume tasks: show the plan"],
    ["degraded", fail, { missing_slots: [], members }, "Array tank has lost a drive. All data is there.", ["Remove the reason, which the events give. Then fail the new drive"], "Fail a drive: show the plan"],
    ["read_only", { drives: [], reason: "no space" }, { ...whole, unreplayed: "no space", read_only: true }, "Array tank takes no writes.", ["no space", "then stop the array and start it again"], null],
    ["superblock_refused", { drives: [], reason: "write protected" }, { ...whole, superblock_refused: "write protected" }, "Array tank cannot be written.", ["write protected", "asked again every second", "superblocks are older"], null],
    ["member_silent", fail, whole, "Drive nvme2n1 of array tank does not answer.", ["the array goes on without it"], "Fail a drive: show the plan"],
    ["member_silent", {}, { ...whole, losses_survived: 0 }, "Drive nvme2n1 of array tank does not answer.", ["Do not fail it: the array cannot do without it."], null],
    ["left_alone", { reason: "/dev/nvme2n1 came back and needs a full rebuild: `stria add tank /dev/nvme2n1` begins it" }, whole, "Drive nvme2n1 came back to array tank, and was left as it is.", ["stria add tank /dev/nvme2n1 begins it", "Take the step that is named above."], null],
    ["members_silent", { drives: ["/dev/nvme1n1", "/dev/nvme2n1"] }, whole, "2 drives of array tank do not answer.", ["controller, cable, enclosure, power", "Do not fail any of them"], null],
  ];
  for (const [kind, more, change, title, words, button] of table) {
    SCENES.one = scene(kind, more, change);
    await on("one", async (page) => {
      await page.getByRole("heading", { level: 1, name: title }).waitFor();
      const said = await page.locator(".case").first().innerText().then(spaced);
      for (const word of words) assert.ok(said.includes(word), `${word} in: ${said}`);
      const found = await page.locator(".case").first().getByRole("button").allInnerTexts().then((all) => all.map(spaced));
      assert.deepEqual(found, button ? [button] : []);
      assert.deepEqual([await axe(page), await sticking_out(page)], [[], []]);
    });
  }
});

test("a fault of the configuration has its own words, by its part", async () => {
  for (const [reason, words] of [
    ["[api]: /etc/stria/api.pem cannot be read", ["Other machines cannot reach this page", "Repair or replace the file that is named", "without TLS"]],
    ["[api] tokens: /etc/stria/tokens:2: a line is NAME", ["No token, no client certificate", "Repair the line that is named", "Do not remove the whole file"]],
    ["[metrics]: 127.0.0.1:9 is taken", ["Prometheus gets no figures", "End the program that uses the port", "Do not silence the alert"]],
    ["[nbd]: /etc/stria/nbd.pem cannot be read", ["The arrays are served without it.", "follows within seconds", "without TLS"]],
  ]) {
    SCENES.fault = () => ({ ...SCENES.well(), matters: [matter("", "ConfigFault", "critical", { drives: [], reason, remedies: [] })] });
    await on("fault", async (page) => {
      await page.getByRole("heading", { level: 1, name: "A part of the configuration does not work." }).waitFor();
      const said = await page.locator("main").innerText().then(spaced);
      for (const word of [reason, ...words]) assert.ok(said.includes(word), `${word} in: ${said}`);
      assert.deepEqual(await axe(page), []);
    });
  }
});

test("an array that waits says for what: drives, a group, another program, an answer", async () => {
  for (const [obstacle, words] of [
    ["drives", ["Attach the drives that are named", "Do not force the start"]],
    ["too_few", ["Several drives rarely fail at once", "Do not force the start", "Do not create an array"]],
    ["group", ["Create the group that is named", "Do not take vhost-user-group out"]],
    ["in_use", ["End the other user of the drive", "by force"]],
    ["silent", ["The array is tried again when it answers", "may hold the newest data"]],
  ]) {
    SCENES.waits = () => {
      const made = SCENES.well();
      Object.assign(made.arrays[0], { state: "waiting", text: "it waits", obstacle, view: null });
      return { ...made, matters: [matter(made.arrays[0].name, "not_served", "critical", { drives: [], reason: "it waits", remedies: [] })] };
    };
    await on("waits", async (page) => {
      const said = await page.locator(".case").first().innerText().then(spaced);
      for (const word of words) assert.ok(said.includes(word), `${word} in: ${said}`);
    });
  }
});

test("an array that cannot start offers no start, and the way to what is to be done", async () => {
  for (const [obstacle, count] of [["too_few", 0], ["drives", 1]]) {
    SCENES.lacking = () => {
      const made = SCENES.well();
      Object.assign(made.arrays[0], { state: "waiting", text: "it waits", obstacle, view: null });
      return { ...made, matters: [matter("tank", "not_served", "critical", { drives: [], reason: "it waits", remedies: [] })] };
    };
    await on(
      "lacking",
      async (page) => {
        await page.getByRole("link", { name: "1 matter needs you: what, and what to do" }).waitFor();
        assert.equal(await page.getByRole("button", { name: "Start…" }).count(), count, obstacle);
      },
      { place: "arrays/tank" },
    );
  }
});

test("one free drive is not promised to two arrays: the worse one takes it", async () => {
  SCENES.one_for_two = () => {
    const scene = SCENES.degraded();
    const second = structuredClone(scene.arrays[0]);
    Object.assign(second, { name: "lake", uuid: "2" });
    Object.assign(second.view, { name: "lake", uuid: "2" });
    for (const member of second.view.members) member.path = member.path.replace("nvme", "nvme9");
    scene.drives.push(...second.view.members.map((member) => drive(member.path, { free: false })));
    scene.matters.push(lost("lake", { drives: ["/dev/nvme93n1"] }));
    scene.arrays.push(second);
    return scene;
  };
  await on("one_for_two", async (page) => {
    await page.locator("article.case").getByText("nvme12n1 is free and fits: press the button.").waitFor();
    await page.locator("details.case > summary").click();
    const second = await page.locator("details.case").innerText().then(spaced);
    assert.ok(second.includes("Add a drive: show the plan") && !second.includes("is free and fits"), second);
  });
});

test("a drive that hangs, or has no space, is not drawn as one that works", async () => {
  await on("member_silent", async (page) => {
    const bay = page.locator(".bay", { hasText: "does not answer" });
    await bay.waitFor();
    assert.equal(await page.locator(".bay.marked").innerText().then(spaced), await bay.innerText().then(spaced));
    await page.getByRole("heading", { level: 1, name: "Drive nvme2n1 of array tank does not answer." }).waitFor();
    await page.getByText("One drive does not answer").waitFor();
    await page.getByRole("link", { name: "tank", exact: true }).click();
    await page.getByText("nvme2n1 does not answer: what needs it waits.").waitFor();
    assert.equal(await page.getByText("No member is busy").count(), 0);
  });
  SCENES.full_below = () => {
    const scene = SCENES.well();
    const own = scene.arrays[0].view.members.slice(0, 3);
    for (const member of own) Object.assign(member, { no_room: true, path: member.path.replace("/dev/", "/srv/images/") });
    return { ...scene, matters: [matter("tank", "no_space", "critical", { drives: own.map(({ path }) => path) })] };
  };
  await on("full_below", async (page) => {
    await page.getByRole("heading", { level: 1, name: "3 drives have no space for writes." }).waitFor();
    await page.getByText("Make space on the file system or pool of /srv/images.").waitFor();
    assert.equal(await page.locator(".bay", { hasText: "no space" }).count(), 3);
    await page.getByText("3 drives have no space for writes", { exact: true }).waitFor();
    await page.getByText("The file system or pool below them is full.").first().waitFor();
    await page.getByText("Do not delete any of the images.").waitFor();
    assert.deepEqual([await axe(page), await sticking_out(page)], [[], []]);
    // The table says what the bay says.
    await page.getByRole("link", { name: "tank", exact: true }).click();
    await page.locator("td .state", { hasText: "no space" }).nth(2).waitFor();
  });
});

test("where two copies differ, drives and sectors are named, and the first button repairs nothing", async () => {
  await on("mismatch", async (page) => {
    await page.getByRole("heading", { level: 1, name: "The copies of pool on nvme8n1 and nvme9n1 differ in 8 sectors." }).waitFor();
    const case_ = page.locator("article.case");
    await page.getByText("Sectors 2,097,152 to 2,097,159 of the array.").waitFor();
    for (const text of ["First look at the drives", "Only then repair: the copy on nvme9n1 stays, and the other version is lost.", "Do not begin with the repair"]) await case_.getByText(text).waitFor();
    assert.equal(await case_.locator(".identity").count(), 2);
    assert.deepEqual(await case_.locator(".buttons .button, .buttons button").allInnerTexts().then((all) => all.map(spaced)), ["See what the drives report", "Repair as the last step…"]);
    assert.equal(await case_.locator(".primary").innerText().then(spaced), "See what the drives report");
    await case_.locator(".primary").click();
    await page.getByRole("heading", { level: 1, name: "Drives" }).waitFor();
  });
  SCENES.parity = () => {
    const scene = SCENES.mismatch();
    const { view } = scene.arrays[0];
    Object.assign(view, { level: "5", mismatch_sectors: 8, undecided: { ...scene.arrays[1].view.undecided, drives: [] } });
    return { ...scene, matters: [{ ...scene.matters[0], array: "tank", drives: [] }] };
  };
  await on("parity", async (page) => {
    await page.getByRole("heading", { level: 1, name: "Data and parity of tank differ in 8 sectors." }).waitFor();
    await page.getByText("redundancy is made to match it").waitFor();
    assert.equal(await page.locator("article.case .primary").innerText().then(spaced), "See what the drives report");
  });
  SCENES.named = () => {
    const scene = SCENES.mismatch();
    delete scene.arrays[1].view.undecided;
    return { ...scene, matters: [{ ...scene.matters[0], drives: scene.matters[0].drives.slice(0, 1) }] };
  };
  await on("named", async (page) => {
    await page.getByText("Look at what nvme9n1 reports of itself. Then repair").waitFor();
    assert.equal(await page.locator("article.case .primary").innerText().then(spaced), "Scrub and repair: show the plan");
  });
});

test("image files are neither pulled nor plugged, and have no serial number; the case says whether there is a spare", async () => {
  await on("images", async (page) => {
    await page.getByText("It has no spare that fills the gap.").waitFor();
    await page.getByText("d9.img is free and fits").waitFor();
    const words = async () => (await page.locator("article.case").innerText().then(spaced)) + (await page.locator(".verdict").innerText().then(spaced));
    const of_disks = /pull|cable|serial|plug|take (it|them) out|loose/i;
    assert.doesNotMatch(await words(), of_disks);
    await page.getByText("Do not delete or move any other image file.").waitFor();
  });
  SCENES.images_alone = () => {
    const scene = SCENES.images();
    return { ...scene, drives: scene.drives.slice(0, -1) };
  };
  await on("images_alone", async (page) => {
    await page.getByText("Look whether the file d3.img is still there").waitFor();
    await page.getByText("Make a new image file of at least").waitFor();
  });
  SCENES.images_pulled = () => {
    const scene = SCENES.images();
    const alarm = { kind: "replaced", drives: ["/srv/images/d3.img"], remedies: [{ action: "remove", array: "tank", drive: "/srv/images/d3.img" }] };
    Object.assign(scene.arrays[0].view, { health: "optimal", missing_slots: [], losses_survived: 2 });
    return { ...scene, matters: [matter("tank", "replaced", "notice", alarm)] };
  };
  await on("images_pulled", (page) => page.getByText("Remove it from the array. Afterwards you may delete the file.").waitFor());
});

test("a drive of a span is said to be in that span", async () => {
  SCENES.spans_seen = () => {
    const scene = SCENES.spans();
    for (const [index, { member }] of scene.drives.entries()) if (index < 6) member.slot = index % 3;
    return scene;
  };
  const look = (page) => page.locator(".drive", { hasText: "/dev/nvme4n1" }).getByText("Array tank, span tank-span1, slot 1").waitFor();
  await on("spans_seen", look, { place: "drives" });
});

test("a drive that is gone since the last look is not listed when the screen of drives is opened", async () => {
  await on("well", async (page, server) => {
    await page.getByRole("button", { name: "Add nvme12n1 as a spare" }).waitFor();
    const scene = SCENES.well();
    server.change({ ...scene, drives: scene.drives.filter(({ path }) => path !== "/dev/nvme12n1") });
    await page.getByRole("link", { name: "Drives" }).click();
    await page.locator(".drive", { hasText: "/dev/sda" }).waitFor();
    await page.locator(".drive", { hasText: "/dev/nvme12n1" }).waitFor({ state: "detached", timeout: 15_000 });
  });
});

test("what was proposed or chosen stays while drives come and go", async () => {
  const with_more = () => {
    const scene = SCENES.degraded();
    return { ...scene, drives: [...scene.drives, drive("/dev/nvme10n1")] };
  };
  await on("degraded", async (page, server) => {
    await page.getByRole("button", { name: "Add nvme12n1: show the plan" }).click();
    const window = page.getByRole("dialog");
    await window.getByRole("button", { name: "Choose another drive" }).click();
    const chosen = (name) => window.getByRole("radio", { name }).isChecked();
    await window.locator(".choice", { hasText: "nvme12n1" }).waitFor();
    assert.ok(await chosen(/nvme12n1/));
    server.change(with_more());
    await window.getByRole("button", { name: "Look again" }).click();
    await window.locator(".choice", { hasText: "nvme10n1" }).waitFor();
    assert.ok(await chosen(/nvme12n1/), "the proposal stays");
    await window.getByRole("radio", { name: /nvme13n1/ }).check();
    server.change(SCENES.degraded());
    await window.getByRole("button", { name: "Look again" }).click();
    await window.locator(".choice", { hasText: "nvme10n1" }).waitFor({ state: "detached" });
    assert.ok(await chosen(/nvme13n1/), "the choice stays");
    // What is gone is replaced by nothing: the reader chooses.
    server.change({ ...with_more(), drives: with_more().drives.filter(({ path }) => path !== "/dev/nvme13n1") });
    await window.getByRole("button", { name: "Look again" }).click();
    await window.locator(".choice", { hasText: "nvme13n1" }).waitFor({ state: "detached" });
    assert.equal(await window.locator("input:checked").count(), 0);
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Add nvme12n1: show the plan" }).waitFor();
  });
});

test("the file of a drive that was deleted is named before it is too late, with the way out that the array has", async () => {
  SCENES.deleted = () => {
    const scene = SCENES.well();
    const [own] = scene.arrays[0].view.members;
    Object.assign(own, { file_deleted: true, path: "/srv/images/d0" });
    const remedies = [{ action: "replace", array: "tank", old: own.path, new: "" }];
    return { ...scene, matters: [matter("tank", "file_deleted", "critical", { drives: [own.path], remedies })] };
  };
  await on("deleted", async (page) => {
    await page.getByRole("heading", { level: 1, name: "The file of drive d0 was deleted or replaced." }).waitFor();
    await page.getByText("Do not stop the array, and do not restart the service or the machine").waitFor();
    assert.equal(await page.locator(".bay", { hasText: "file deleted" }).count(), 1);
    await page.getByText("The file of one drive was deleted", { exact: true }).waitFor();
    assert.deepEqual([await axe(page), await sticking_out(page)], [[], []]);
  });
  SCENES.deleted_alone = () => {
    const scene = SCENES.deleted();
    return { ...scene, matters: [{ ...scene.matters[0], remedies: [] }] };
  };
  await on("deleted_alone", async (page) => page.getByText("Copy the data off while the array runs.").waitFor());
});

test("no word of a forecast is broken on the narrowest phone, in any language", async () => {
  for (const locale of ["en-GB", "de-DE", "ru-RU"]) {
    const look = async (page) => {
      await page.getByRole("checkbox").nth(4).waitFor();
      for (const box of await page.getByRole("checkbox").all()) await box.check();
      await page.locator("button.primary").click();
      await page.locator(".filters select").nth(1).selectOption("p4510");
      await page.locator(".planned").first().waitFor();
      const broken = await page.locator(".gives small").evaluateAll((all) => {
        const is_broken = (text, { index, 0: word }) => {
          const range = document.createRange();
          range.setStart(text, index);
          range.setEnd(text, index + word.length);
          return !word.includes("\u00ad") && new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size > 1;
        };
        return all.flatMap(({ firstChild: text }) => [...text.textContent.matchAll(/[\p{L}\u00ad]+/gu)].filter((word) => is_broken(text, word)).map(([word]) => word));
      });
      assert.deepEqual(broken, [], locale);
    };
    await on("empty", look, { place: "create", locale, viewport: { width: 320, height: 740 } });
  }
});

test("no figure is parted from its unit at the end of a line, in any language", async () => {
  const UNITS = /\d(?: |\u00a0)(?:[KMGTP]?i?B|GB|%|°C|µs|ms|s|h|min|days?|Tagen?|мкс|мс|с|ч|мин|день|дня|дней)(?![\p{L}\d])/gu.source;
  for (const locale of ["en-GB", "de-DE", "ru-RU"]) {
    for (const [scene, place] of [["well", ""], ["well", "drives"], ["well", "arrays/tank"], ["degraded", ""], ["rebuilding", ""], ["paused", ""], ["empty", "create"]]) {
      const look = async (page) => {
        await page.waitForFunction((units) => new RegExp(units, "u").test(document.body.innerText), UNITS);
        const found = await page.locator("body").evaluate((body, units) => {
          const walker = document.createTreeWalker(body, NodeFilter.SHOW_TEXT);
          const all = [];
          while (walker.nextNode()) {
            const text = walker.currentNode;
            // The server's own English is as it is.
            if (text.parentElement.closest("[lang=en] [lang=en], html:not([lang=en]) [lang=en], script, style")) continue;
            for (const { index, 0: figure } of text.textContent.matchAll(new RegExp(units, "gu"))) {
              const range = document.createRange();
              range.setStart(text, index);
              range.setEnd(text, index + figure.length);
              const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size;
              all.push({ figure, parted: figure.includes(" ") || lines > 1 });
            }
          }
          return all;
        }, UNITS);
        assert.ok(found.length > 0, `${scene} ${place}: there are figures`);
        assert.deepEqual(found.filter(({ parted }) => parted).map(({ figure }) => figure), [], `${locale} ${scene} ${place}`);
      };
      await on(scene, look, { place, locale, viewport: { width: 320, height: 740 } });
    }
  }
});

test("no word of the menu is broken on a narrow phone, in any language, and each screen of it is known by its bar", async () => {
  for (const locale of ["en-GB", "de-DE", "ru-RU"]) {
    const look = async (page) => {
      for (const link of await page.locator("nav a").all()) {
        await link.click();
        await page.locator("nav a[aria-current]").waitFor();
        // A word breaks at a soft hyphen alone.
        const broken = await page.locator("nav a > span:not(.count):not(.hidden)").evaluateAll((all) => all.filter((one) => one.scrollWidth > one.clientWidth + 1 || (!one.textContent.includes("\u00ad") && one.getBoundingClientRect().height > 1.9 * parseFloat(getComputedStyle(one).fontSize))).map((one) => one.textContent));
        assert.deepEqual(broken, [], locale);
      }
    };
    await on("well", look, { locale, viewport: { width: 360, height: 740 } });
  }
});

SCENES.spans = () => {
  const scene = SCENES.well();
  const [tank] = scene.arrays;
  const span = (name, from) => view(name, "5", [0, 1, 2].map((slot) => member(slot, { path: `/dev/nvme${from + slot}n1` })));
  const above = [0, 1].map((slot) => member(slot, { path: `tank-span${slot}`, direct: null, model: null, serial: null }));
  Object.assign(tank.view, { level: "50", bitmap: null, log: null, members: above, spans: [span("tank-span0", 0), span("tank-span1", 3)] });
  return scene;
};

test("a place whose array is not known has a heading, and the tables of two spans have names of their own", async () => {
  const look = async (page) => {
    await page.locator("h1").waitFor();
    assert.deepEqual([await axe(page), await sticking_out(page)], [[], []]);
  };
  // The bitmap and the log of such an array are those of its spans.
  const sums = async (page) => {
    await look(page);
    for (const text of ["6 of 114,440 bits set, each for 64 MiB", "yes; 162,844 writes acknowledged early"]) await page.getByText(text).waitFor();
  };
  await on("spans", sums, { place: "arrays/tank" });
  await on("spans", look, { place: "arrays/nobody" });
  SCENES.span_lost = () => {
    const scene = SCENES.spans();
    const { view } = scene.arrays[0];
    const [span] = view.spans;
    Object.assign(span, { health: "degraded", losses_survived: 0, missing_slots: [1], members: span.members.filter(({ slot }) => slot !== 1) });
    Object.assign(view, { health: "degraded", losses_survived: 0 });
    scene.matters = [lost("tank", { array: "tank-span0" })];
    return scene;
  };
  // A reader knows the array, and not how its spans are called.
  await on("span_lost", (page) => page.getByRole("heading", { level: 1, name: "Array tank (tank-span0) has lost a drive." }).waitFor());
});

test("the first screen says of no drive that it was not seen where it is listed, and counts the drives that it names", async () => {
  SCENES.unwritable = () => {
    const scene = SCENES.failed();
    scene.matters.push(matter("tank", "superblock_refused", "critical", { reason: "/dev/nvme1n1: the drive is gone" }));
    return scene;
  };
  await on("unwritable", async (page) => {
    await page.locator("summary", { hasText: "cannot be written" }).click();
    await page.getByText("Superblocks cannot be written.").waitFor();
    assert.equal(await page.getByText("seen since the server started").count(), 0);
  });
  // The drive that was being filled has failed as well: one slot, two drives.
  SCENES.twice = () => {
    const scene = SCENES.bare();
    const { view } = scene.arrays[0];
    view.members.push(member(3, { path: "/dev/nvme12n1", serial: null, role: "failed", failure: "the drive is gone" }));
    for (const one of view.members) one.serial = null;
    scene.drives = scene.drives.filter(({ path }) => path !== "/dev/nvme12n1");
    for (const one of scene.drives) one.serial = null;
    scene.matters[0].drives = ["/dev/nvme3n1", "/dev/nvme12n1"];
    return scene;
  };
  await on("twice", (page) => page.getByText("Find nvme3n1 and nvme12n1 by their paths, and take them out.").waitFor());
});

test("a rebuild on an array's page needs nobody; what a read-only array lacks begins with its setting", async () => {
  await on("rebuilding", (page) => page.getByRole("link", { name: "It is being rebuilt: until when, and what not to do now" }).waitFor(), { place: "arrays/tank" });
  SCENES.read_only_lost = () => {
    const scene = SCENES.degraded();
    scene.arrays[0].view.read_only = true;
    scene.matters[0].remedies = [{ action: "set", array: "tank", write: null, drive_caches: null, read_only: false, bitmap: null, log: null, integrity: null, force: false }];
    return scene;
  };
  await on("read_only_lost", async (page, server) => {
    await page.getByText("It is set to read-only, so nothing of it can be changed.").waitFor();
    assert.equal(await page.getByText("is free and fits").count(), 0);
    await page.getByRole("button", { name: "Change the settings: show the plan" }).click();
    assert.equal((await until_asked(server, "/api/v1/plans")).body.read_only, false);
  });
  SCENES.unreplayed_lost = () => {
    const scene = SCENES.read_only_lost();
    scene.arrays[0].view.unreplayed = "reading the write log failed";
    scene.matters[0].remedies = [];
    return scene;
  };
  await on("unreplayed_lost", async (page) => {
    await page.getByText("its other matter says what to do first").waitFor();
    assert.equal(await page.locator("article.case button.primary").count(), 0);
  });
});

test("no word of a slot is broken, on a narrow phone or beside the steps of a wide screen", async () => {
  SCENES.narrow = () => {
    const scene = SCENES.rebuilding();
    const [{ view }] = scene.arrays;
    view.members = view.members.slice(0, 5);
    return scene;
  };
  const look = (width, locale) => async (page) => {
    await page.locator(".bay-word").first().waitFor();
    // Words break at blanks and soft hyphens alone.
    const broken = await page.locator(".case .bay-word:not(.hidden)").evaluateAll((all) => all.filter((one) => ((one.style.overflowWrap = "normal"), (one.style.hyphens = "manual"), one.scrollWidth > one.clientWidth + 1)).map((one) => one.textContent));
    assert.deepEqual([broken, await sticking_out(page)], [[], []], `${width} ${locale}`);
  };
  for (const [scene, width, locale] of [["narrow", 360, "ru-RU"], ...[1024, 1280, 1920].flatMap((width) => ["ru-RU", "de-DE"].flatMap((locale) => ["paused", "read_only"].map((scene) => [scene, width, locale])))]) {
    await on(scene, look(width, locale), { locale, viewport: { width, height: 800 } });
  }
});

test("an array that has failed is nowhere said to lose data by one more drive", async () => {
  const look = async (page) => {
    await page.getByText("More drives are lost than it can replace").first().waitFor();
    assert.equal(await page.getByText("The loss of a drive loses data").count(), 0);
  };
  for (const place of ["", "arrays/tank"]) await on("failed", look, { place });
});

test("on a narrow phone what clients read and write stands beside its word, in any language", async () => {
  const viewport = { width: 360, height: 740 };
  for (const locale of ["en-GB", "de-DE", "ru-RU"]) {
    for (const place of ["", "arrays"]) {
      const look = async (page) => {
        await page.locator(".rates strong").first().waitFor();
        const apart = await page.locator(".rates strong").evaluateAll((all) =>
          all.filter((figure) => {
            const word = document.createRange();
            word.selectNodeContents(figure.parentElement);
            word.setEndBefore(figure);
            return Math.abs([...word.getClientRects()].at(-1).bottom - figure.getBoundingClientRect().bottom) > 6;
          }).length,
        );
        assert.equal(apart, 0, `${locale} ${place}`);
      };
      await on("well", look, { locale, place, viewport });
    }
  }
});

test("on a phone a drive's figures stand in two columns, no line ends a table, and a plan uses its window", async () => {
  const viewport = { width: 360, height: 740 };
  const drives = async (page) => {
    const details = page.locator(".drive .details").first();
    await details.waitFor();
    const left_edges = await details.locator("> *").evaluateAll((all) => all.map((one) => one.getBoundingClientRect().left));
    assert.equal(new Set(left_edges).size, 2);
  };
  await on("well", drives, { place: "drives", viewport });
  // Three and one, where three had space.
  for (const width of [1280, 1920]) {
    const rows = async (page) => {
      const details = page.locator(".drive > .details").first();
      await details.waitFor();
      const tops = await details.locator("> *").evaluateAll((all) => all.map((one) => Math.round(one.getBoundingClientRect().top)));
      const in_row = [...new Set(tops)].map((top) => tops.filter((one) => one === top).length);
      assert.deepEqual(in_row, [2, 2], `${width}: ${tops}`);
    };
    await on("well", rows, { place: "drives", viewport: { width, height: 900 } });
  }
  const array = async (page) => {
    const last = page.locator("table tbody tr:last-child");
    await last.first().waitFor();
    assert.deepEqual(await last.evaluateAll((rows) => rows.map((row) => getComputedStyle(row).borderBottomWidth).filter((width) => width !== "0px")), []);
    const [above, below] = await Promise.all([page.locator(".as-of").boundingBox(), page.locator(".as-of + *").boundingBox()]);
    assert.ok(below.y - above.y - above.height >= 8, "the time of the last answer does not touch what it dates");
  };
  await on("silent", array, { place: "arrays/tank", viewport });
  const plan = async (page) => {
    await page.getByText(/is free and fits/).waitFor();
    await page.locator(".case button.primary").first().click();
    await page.getByText("What will be written where").first().click();
    const right = (part) => page.locator(part).evaluate((one) => one.getBoundingClientRect().right);
    const edges = await Promise.all([right(".plan tbody td:last-child"), right(".plan tbody")]);
    assert.ok(edges[1] - edges[0] < 4, `the last fact ends at ${edges[0]} of ${edges[1]}`);
  };
  await on("degraded", plan, { viewport: { width: 768, height: 900 } });
});

test("a quiet line says who is told of alarms; that nobody is told is marked, with a form for it", async () => {
  for (const [told_by, words] of [[["mail", "webhook"], "Alarms are sent by mail, webhook"], [[], "Nobody is told of alarms"]]) {
    SCENES.channels_known = () => ({ ...SCENES.well(), told_by });
    await on("channels_known", async (page, server) => {
      await page.getByText(words).waitFor();
      await page.getByRole("heading", { level: 1, name: "All is well." }).waitFor();
      assert.deepEqual([await axe(page), await sticking_out(page)], [[], []]);
      if (told_by.length === 0) await page.getByRole("link", { name: "Say where they go." }).click();
      else await page.getByRole("link", { name: "Alarms" }).click();
      await page.getByText("No alarm is open.").waitFor();
      assert.equal(await page.locator(".banner.untold").count(), told_by.length === 0 ? 1 : 0);
      assert.equal(await page.locator(".pill.good").count(), told_by.length === 0 ? 0 : 1);
      const mail = page.getByLabel("Mail addresses");
      assert.equal(await mail.inputValue(), told_by.length === 0 ? "" : "storage@example.org");
      const save = page.getByRole("button", { name: "Save and apply" });
      assert.ok(await save.isDisabled(), "nothing has changed yet");
      await mail.fill("a@example.org, b@example.org");
      await page.getByLabel("Webhook (URL)").fill("https://example.org/hook");
      await save.click();
      await page.getByText("the configuration is read anew").waitFor();
      const { body } = await until_asked(server, "/api/v1/alarms/settings");
      assert.deepEqual(body, { mail: ["a@example.org", "b@example.org"], webhook: "https://example.org/hook", tag: "as read" });
      await page.getByRole("button", { name: "Send a test" }).waitFor();
      assert.deepEqual([await axe(page), await sticking_out(page)], [[], []]);
    });
  }
});

test("drives are looked at again when an alarm comes, and again if that had no answer; an old answer does not replace a newer one", async () => {
  let fails = 0;
  const refuse = (method, path) => (method === "GET" && path === "/api/v1/drives" && fails-- > 0 ? { status: 500, message: "not now" } : null);
  SCENES.looks = () => ({ ...SCENES.well(), refuse });
  await on(
    "looks",
    async (page, server) => {
      const row = page.getByRole("row", { name: /nvme2n1/ });
      await row.getByText("good", { exact: true }).waitFor();
      const worn = SCENES.looks();
      worn.drives.find((drive) => drive.path === "/dev/nvme2n1").health.verdict = "replace";
      worn.alarms = [{ event: "DriveReplace", array: "tank", component: "/dev/nvme2n1", text: "worn", since_s: 0 }];
      fails = 1;
      server.change(worn);
      await row.getByText("replace", { exact: true }).waitFor();
      // The answer to an older question comes last.
      let release;
      const held = new Promise((resolve) => (release = resolve));
      let asked;
      const is_asked = new Promise((resolve) => (asked = resolve));
      let answered;
      const old = new Promise((resolve) => (answered = resolve));
      await page.route("**/drives?refresh=true", async (route) => {
        const answer = await route.fetch();
        asked();
        await held;
        await route.fulfill({ response: answer });
        answered();
      });
      await page.getByRole("link", { name: "Drives" }).click();
      await page.getByRole("button", { name: "Look again" }).click();
      await is_asked;
      const better = SCENES.looks();
      better.drives.find((drive) => drive.path === "/dev/nvme2n1").health.wear_percent = 55;
      server.change(better);
      const card = page.locator("li.drive", { hasText: "/dev/nvme2n1" });
      await card.getByText("55%").waitFor();
      release();
      await old;
      await page.getByRole("button", { name: "Look again" }).waitFor();
      assert.equal(await card.getByText("55%").count(), 1);
    },
    { place: "arrays/tank" },
  );
  SCENES.aged = () => {
    const scene = SCENES.well();
    for (const drive of scene.drives) drive.health_read_at_s -= 3600;
    return scene;
  };
  await on("aged", (page) => page.getByRole("row", { name: /nvme2n1/ }).getByText(/The drive was asked at/).waitFor(), { place: "arrays/tank" });
});

test("a list of drives that was never read is no machine without drives: it is being asked for, then the refusal is said", async () => {
  const held = [];
  let is_held = true;
  const refuse = (method, path) => (method === "GET" && path === "/api/v1/drives" ? { status: 500, kind: "failed", message: "/dev: too many open files", wait: is_held ? new Promise((resolve) => held.push(resolve)) : null } : null);
  SCENES.unread = () => ({ ...SCENES.degraded(), refuse });
  await on("unread", async (page) => {
    const window = page.getByRole("dialog");
    await page.getByRole("button", { name: "Add a drive: show the plan" }).click();
    await window.getByText("Asking the server…").waitFor();
    assert.equal(await window.getByText("No drive of this machine can take the place").count(), 0);
    is_held = false;
    for (const release of held) release();
    await window.getByText("/dev: too many open files").waitFor();
    await window.getByText("The drives of this machine could not be read").waitFor();
    assert.equal(await window.getByText("No drive of this machine can take the place").count(), 0);
    assert.deepEqual([await axe(page), await sticking_out(page)], [[], []]);
    await page.goto(page.url().replace(/#.*/, "#/drives"));
    await page.locator("main").getByText("/dev: too many open files").waitFor();
    await page.goto(page.url().replace(/#.*/, "#/create"));
    await page.locator("main").getByText("/dev: too many open files").waitFor();
  });
});

test("a server whose clock is an hour ahead, or behind, closes no plan and tells the true age", async () => {
  for (const ahead_ms of [3_600_000, -3_600_000]) {
    SCENES.clock = () => {
      const scene = { ...SCENES.degraded(), ahead_ms };
      scene.matters[0].since_ms = Date.now() + ahead_ms - 17 * 60_000;
      return scene;
    };
    await on("clock", async (page) => {
      await page.getByText("17 min ago").first().waitFor();
      await page.getByRole("button", { name: "Add nvme12n1: show the plan" }).click();
      await page.getByRole("dialog").getByRole("button", { name: "Do it" }).waitFor();
      assert.equal(await page.getByText("This plan has run out").count(), 0);
    });
  }
});

test("a reader who is not let in, and an address that is not the server's, are told so in the server's words", async () => {
  for (const [status, words] of [[403, "The server answers, and does not let you in."], [421, "The server answers, but not under this address."]]) {
    let is_closed = true;
    SCENES.closed = () => ({ ...SCENES.well(), refuse: (_, path) => (is_closed && path.startsWith("/api/") ? { status, message: "add yourself to the group stria" } : null) });
    const server = await mock("closed");
    const context = await chromium.newContext({ locale: "en-GB" });
    const page = await context.newPage();
    await page.goto(server.url);
    await page.getByText(words).waitFor();
    await page.getByText("add yourself to the group stria").waitFor();
    assert.equal(await page.getByText(/No answer since|has not answered yet/).count(), 0);
    is_closed = false;
    await page.getByRole("heading", { level: 1, name: "All is well." }).waitFor();
    assert.equal(await page.getByText(words).count(), 0);
    await context.close();
    await server.close();
  }
});

test("an order after a login in another tab is sent again with the new session's value; a refusal that stays is shown", async () => {
  const session = { name: "alice", role: "admin", via: "session", csrf: "old" };
  let valid = "old";
  const refuse = (method, _, headers) => (method !== "GET" && headers["x-stria-csrf"] !== valid ? { status: 403, message: "the header x-stria-csrf is wrong" } : null);
  SCENES.tabs = () => ({ ...SCENES.well(), user: session, refuse });
  await on(
    "tabs",
    async (page, server) => {
      const light = page.getByRole("button", { name: "Light on /dev/nvme12n1" });
      await light.waitFor();
      valid = "new";
      server.change({ ...SCENES.tabs(), user: { ...session, csrf: "new" } });
      await light.click();
      assert.deepEqual((await until_asked(server, "/api/v1/actions")).body, { action: "locate", drive: "/dev/nvme12n1", on: true });
      valid = "another";
      await page.getByRole("link", { name: "Settings" }).click();
      await page.getByRole("button", { name: "Log out" }).click();
      await page.getByText("the header x-stria-csrf is wrong").waitFor();
    },
    { place: "drives" },
  );
});

test("a job that failed half way is not said to have done nothing; a plan without writes says so only in the server's name", async () => {
  SCENES.half = () => ({ ...SCENES.stopped(), matters: [matter("tank", "not_served", "critical")], job: { state: "failed", text: "paused at 8 %" } });
  await on(
    "half",
    async (page) => {
      await page.getByRole("button", { name: "Start…" }).click();
      const go = page.getByRole("dialog").getByRole("button", { name: "Do it" });
      await go.waitFor();
      assert.equal(await page.getByText("Nothing is written to any drive.").count(), 0, "the server did not say so");
      await go.click();
      await page.getByText("It failed:").waitFor();
      await page.getByRole("dialog").getByText("paused at 8 %").waitFor();
      await page.getByRole("dialog").getByText("the first screen says what to do now").waitFor();
    },
    { place: "arrays/tank" },
  );
});

test("all well is said with its reasons", async () => {
  await on("well", async (page) => {
    await page.getByRole("heading", { level: 1, name: "All is well." }).waitFor();
    // Events are told later than the state; until then nothing is said of a scrub that may be among them.
    await page.locator(".reasons").getByText(/all redundancy matches/).first().waitFor();
    const text = await page.locator(".reasons").innerText().then(spaced);
    for (const words of ["Survives the failure of any 2 drives", "1 spare ready", "all redundancy matches", "7% of its endurance", "an array is no backup"]) assert.ok(text.includes(words), `${words} in: ${text}`);
  });
});

test("no array is said to have had no scrub before the events are known", async () => {
  let answer;
  const wait = new Promise((resolve) => (answer = resolve));
  let is_held = true;
  const never = { events: [], refuse: (method, path) => (is_held && path === "/api/v1/events" ? { wait, status: 503, message: "later" } : null) };
  SCENES.untold_scrubs = () => ({ ...SCENES.well(), ...never });
  await on("untold_scrubs", async (page) => {
    await page.getByText("Complete: 6 drives in sync").waitFor();
    assert.equal(await page.getByText("No scrub is on record").count(), 0);
    is_held = false;
    answer();
    await page.reload();
    await page.getByText("No scrub is on record").first().waitFor();
  });
});

test("the last scrub of an array with spans is that of its spans; what a scrub could not compare is no match", async () => {
  const day_s = Math.floor(Date.now() / 1000) - 86_400;
  const scene = (name, ...scrubs) => {
    SCENES[name] = () => {
      const found = SCENES.spans();
      found.arrays.splice(1);
      const { view } = found.arrays[0];
      view.spans.forEach((span, index) => Object.assign(span, { last_scrub: scrubs[index] && { ended_s: day_s, mismatch_sectors: 0, unchecked_sectors: 0, repaired: false, ...scrubs[index] } }));
      return found;
    };
  };
  scene("scrubbed", {}, {});
  scene("scrubbed_in_part", {}, { unchecked_sectors: 4096 });
  scene("scrubbed_once", {}, null);
  const words = { scrubbed: "all redundancy matches", scrubbed_in_part: "a part could not be compared", scrubbed_once: "No scrub is on record" };
  for (const [name, wanted] of Object.entries(words)) {
    await on(name, async (page) => {
      const reasons = page.locator("li", { hasText: /[Ss]crub/ }).filter({ hasText: wanted });
      await reasons.first().waitFor();
      for (const other of Object.values(words).filter((other) => other !== wanted)) assert.equal(await page.getByText(other).count(), 0, `${name}: ${other}`);
    });
  }
});

test("arrays that are stopped are not all well, and a fault of the API is said although there is no array", async () => {
  SCENES.some_stopped = () => {
    const scene = SCENES.well();
    return { ...scene, arrays: [...scene.arrays, ...["lake", "pond"].map((name) => ({ ...SCENES.stopped().arrays[0], name }))] };
  };
  await on("some_stopped", async (page) => {
    const verdict = page.locator(".verdict");
    await verdict.getByText("2 arrays are stopped and serve nobody: lake, pond").waitFor();
    assert.equal(await verdict.getByRole("link", { name: "pond" }).getAttribute("href"), "#/arrays/pond");
    assert.equal(await page.locator(".verdict.good").count(), 0);
    assert.deepEqual([await axe(page), await sticking_out(page)], [[], []]);
  });
  await on("stopped", async (page) => {
    await page.getByRole("heading", { level: 1, name: "No array is served." }).waitFor();
    assert.equal(await page.getByText("All is well.").count(), 0);
  });
  SCENES.bare_fault = () => ({ ...SCENES.empty(), matters: [matter("", "ConfigFault", "critical", { reason: "[api]: /etc/stria/api.pem cannot be read" })] });
  await on("bare_fault", (page) => page.getByRole("heading", { level: 1, name: "A part of the configuration does not work." }).waitFor());
});

test("what members could do is measured when asked: which one limits, and how much more there is; and what a rebuild costs clients", async () => {
  await on(
    "rebuilding",
    async (page, server) => {
      // A bar without a known length would say that a member is at its limit.
      const rows = page.locator(".roof li");
      await rows.nth(5).waitFor();
      assert.equal(await rows.count(), await rows.filter({ hasText: "not measured" }).count());
      assert.equal(await page.locator(".roof-bar").count(), 0);
      await page.getByText("What the members could do is not measured yet").waitFor();
      await page.getByRole("button", { name: "Measure what the members could do" }).click();
      await page.getByText(/nvme2n1 limits: it does \d+% of what it could. With the present mix of requests the array could do about \d/).waitFor();
      // One of them was not measured.
      assert.deepEqual([await page.locator(".roof-bar").count(), await rows.filter({ hasText: "not measured" }).count()], [5, 1]);
      assert.match(await page.locator(".roof li.marked").innerText().then(spaced), /nvme2n1[^]*84 µs now, 76 µs alone/);
      assert.equal(await page.locator(".spark-roof").count(), 2);
      await page.getByText(/Processor time of the lanes: \d+%, 21%\./).waitFor();
      // The bounds on speed are those that are set.
      assert.equal(await page.getByLabel("At least, even while clients work").getAttribute("aria-valuetext"), "20\u00a0MiB/s");
      assert.equal(await page.getByLabel("At most").getAttribute("aria-valuetext"), "no bound");
      await page.getByRole("button", { name: "Measure what it costs clients" }).click();
      await page.getByText("Rebuild costs clients 16% of their requests.").waitFor();
      assert.deepEqual(await axe(page), []);
      for (const width of [390, 820, 1440]) {
        await page.setViewportSize({ width, height: 900 });
        assert.deepEqual(await sticking_out(page), [], `at ${width}`);
      }
      // A slider that was not moved changes nothing.
      assert.ok(await page.getByRole("button", { name: "Apply" }).isDisabled());
      await page.getByLabel("At most").fill("9");
      await page.getByRole("button", { name: "Apply" }).click();
      const asked = await until_asked(server, "/api/v1/actions");
      assert.deepEqual([asked.body.min_bytes_per_s, asked.body.max_bytes_per_s], [null, 512 << 20]);
      await page.getByLabel("At most").fill("14");
      await page.getByText("no bound").first().waitFor();
      server.asked.length = 0;
      await page.getByRole("button", { name: "Apply" }).click();
      const lifted = await until_asked(server, "/api/v1/actions");
      assert.equal(lifted.body.max_bytes_per_s, 0);
    },
    { place: "arrays/tank" },
  );
});

test("a lane that has no processor time left is named as the limit, unless it polls", async () => {
  const scene = (polls) => () => {
    const made = SCENES.well();
    for (const lane of made.arrays[0].view.lanes) lane.polls = polls;
    return { ...made, lanes: [0.97, 0.4] };
  };
  Object.assign(SCENES, { spent: scene(false), polling: scene(true) });
  await on("spent", (page) => page.getByText("Lane 1 limits: it uses 97% of a processor.").waitFor(), { place: "arrays/tank" });
  const polls = async (page) => {
    await page.getByText("Processor time of the lanes: polls, polls.").waitFor();
    assert.equal(await page.getByText(/^Lane 1 limits/).count(), 0);
  };
  await on("polling", polls, { place: "arrays/tank" });
});

test("schedules are set by a form: the usual ones by choice, others as systemd writes them", async () => {
  await on(
    "degraded",
    async (page, server) => {
      const form = page.locator("form.schedules");
      await form.getByRole("combobox", { name: "Scrub all arrays" }).selectOption("weekly");
      await form.getByRole("combobox", { name: "Scrub tank" }).selectOption("");
      await form.getByRole("combobox", { name: "Long self-tests of drives" }).selectOption("own");
      await form.getByRole("textbox", { name: "Long self-tests of drives: As systemd writes it" }).fill("Sat *-*-* 03:00");
      await form.getByRole("button", { name: "Save and apply" }).click();
      const { body } = await until_asked(server, "/api/v1/routine/settings");
      assert.deepEqual(body, { scrub: "weekly", scrubs: {}, self_test: "weekly", long_self_test: "Sat *-*-* 03:00", hours: "22:00-06:00", tag: "as read" });
      await page.getByRole("link", { name: "lab-tank.html" }).waitFor();
    },
    { place: "settings" },
  );
});

test("settings of an array are planned: those that were chosen change, the others stay", async () => {
  await on(
    "well",
    async (page, server) => {
      const form = page.locator("section", { has: page.getByRole("heading", { name: "Settings of the array" }) });
      const button = form.getByRole("button", { name: "Change the settings…" });
      assert.ok(await button.isDisabled(), "nothing was chosen");
      await form.getByLabel("A write is acknowledged").selectOption("back");
      await form.getByLabel("Write-intent bitmap").selectOption({ label: "no" });
      await form.getByLabel("Write log").selectOption({ label: "no" });
      await form.getByLabel("Write log").selectOption({ label: "as it is: yes" });
      await button.click();
      const nothing = { drive_caches: null, read_only: null, log: null, integrity: null };
      assert.deepEqual((await until_asked(server, "/api/v1/plans")).body, { action: "set", array: "tank", write: "back", bitmap: "none", force: true, ...nothing });
      await page.getByRole("dialog").getByRole("button", { name: "Do it" }).waitFor();
    },
    { place: "arrays/tank" },
  );
});

test("the pool of spares says what it has for each array; drives go in and out, and a light is switched", async () => {
  await on(
    "shared",
    async (page, server) => {
      const pool = page.locator("section", { has: page.getByRole("heading", { name: "Pool of spares" }) });
      await pool.getByText("SSD or hard disk").waitFor();
      const said = await pool.innerText().then(spaced);
      for (const words of ["SSD or hard disk", "S64HNE0T599999 free", "taken by \"pool\"", "another kind of drive"]) assert.ok(said.includes(words), `${words} in: ${said}`);
      await pool.getByRole("button", { name: "Out of the pool… /dev/sdz" }).click();
      assert.deepEqual((await until_asked(server, "/api/v1/plans")).body, { action: "spare_remove", drives: ["/dev/sdz"] });
      await page.keyboard.press("Escape");
      assert.equal(await page.getByRole("button", { name: "Into the pool of spares…" }).count(), 0, "each drive is a member, in use, or in the pool");
      await page.getByRole("button", { name: "Light on /dev/nvme12n1" }).click();
      assert.deepEqual((await until_asked(server, "/api/v1/actions")).body, { action: "locate", drive: "/dev/nvme12n1", on: true });
      await page.locator("li.drive", { hasText: "/dev/nvme12n1" }).getByText("The light is on.").waitFor();
    },
    { place: "drives" },
  );
  await on(
    "empty",
    async (page, server) => {
      await page.getByRole("button", { name: "Into the pool of spares… /dev/nvme2n1" }).click();
      assert.deepEqual((await until_asked(server, "/api/v1/plans")).body, { action: "spare_add", drives: ["/dev/nvme2n1"] });
    },
    { place: "drives" },
  );
});

test("what others left is imported, under another name if its own is taken", async () => {
  await on(
    "shared",
    async (page, server) => {
      const foreign = page.locator("section", { has: page.getByRole("heading", { name: "Left by others" }) });
      assert.ok((await foreign.innerText().then(spaced)).includes("Intel RAID (IMSM)"));
      assert.equal(await foreign.getByRole("button", { name: "Import…" }).count(), 2, "what lacks members cannot be imported");
      const taken = foreign.getByRole("button", { name: "Import… tank" });
      assert.ok(await taken.isDisabled(), "it needs another name");
      await foreign.locator(".job", { hasText: "tank" }).getByLabel("Name here").fill("theirs");
      await taken.click();
      const { body } = await until_asked(server, "/api/v1/plans");
      assert.deepEqual([body.action, body.name, body.read_only, body.array.startsWith("11aa22bb")], ["import", "theirs", false, true]);
    },
    { place: "arrays" },
  );
});

test("a job whose work can end early is cancelled, and says so", async () => {
  await on(
    "well",
    async (page, server) => {
      server.change({ ...SCENES.well(), job: { state: "running", text: "it has begun", ended_ms: null } });
      await page.getByRole("button", { name: "Scrub…" }).click();
      await page.getByRole("button", { name: "Do it" }).click();
      await page.getByRole("dialog").getByRole("button", { name: "Cancel the scrub scrub tank" }).click();
      await page.getByText("It was cancelled before its end.").waitFor();
      assert.ok((await until_asked(server, "/api/v1/jobs/1")).path);
    },
    { place: "arrays/tank" },
  );
});

test("the first paint comes within a second on a processor that is six times slower", async () => {
  const server = await mock("degraded");
  // A busy machine is slow by itself: an empty page is painted beside it.
  let [best, empty] = [Infinity, Infinity];
  for (let tries = 8; tries > 0 && best >= 1000; tries -= 1) {
    empty = Math.min(empty, (await visit(chromium, "data:text/html,<main><h1>Stria", 6)).paint_ms);
    best = Math.min(best, (await visit(chromium, server.url, 6)).paint_ms);
  }
  await server.close();
  assert.ok(best < Math.max(1000, 4 * empty), `${best} ms, an empty page ${empty} ms`);
});

test("a stream that arrives in pieces is read message by message", async () => {
  const { build } = await import("esbuild");
  const made = await build({ entryPoints: [new URL("../src/way.ts", import.meta.url).pathname], bundle: true, format: "esm", write: false });
  globalThis.document = { querySelector: () => null };
  globalThis.window = {};
  const { messages } = await import(`data:text/javascript;base64,${Buffer.from(made.outputFiles[0].text).toString("base64")}`);
  const text = 'event: state\r\ndata: {"a":\r\ndata: 1}\r\n\r\n: a comment\n\nid: 7\nevent: event\ndata: {}\n\n';
  for (let cut = 0; cut <= text.length; cut += 1) {
    const heard = [];
    const read = messages((...message) => heard.push(message));
    read(text.slice(0, cut));
    read(text.slice(cut));
    assert.deepEqual(heard, [["state", '{"a":\n1}', null], ["event", "{}", "7"]], `cut at ${cut}`);
  }
});

test("what can be done with a member stands in sight beside it, however narrow the window", async () => {
  for (const locale of ["en-GB", "de-DE", "ru-RU"]) {
    await on(
      "degraded",
      async (page) => {
        await page.locator(".row-actions button").nth(5).waitFor();
        for (const width of [390, 900, 1024, 1280, 1440]) {
          await page.setViewportSize({ width, height: 900 });
          const hidden = await page.locator(".row-actions button").evaluateAll((all) => all.filter((one) => one.getBoundingClientRect().right > one.closest(".scroll").getBoundingClientRect().right + 1).length);
          assert.equal(hidden, 0, `${width}, ${locale}`);
          // Nor does it cover the figures beside it.
          const covered = await page.locator(".row-actions").evaluateAll((all) => all.filter((one) => {
            const [own, before] = [one, one.previousElementSibling].map((cell) => cell.getBoundingClientRect());
            return getComputedStyle(one).display === "table-cell" && before.right > own.left + 1;
          }).length);
          assert.equal(covered, 0, `${width}, ${locale}: figures are covered`);
        }
      },
      { place: "arrays/tank", locale },
    );
  }
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

test("a paused rebuild is resumed, a silent member is failed after a look at it, and an array that takes no writes has no button", async () => {
  const orders = { paused: ["Resume tasks: show the plan", { action: "resume", array: "tank" }], member_silent: ["Fail a drive: show the plan", { action: "fail", array: "tank", drive: "/dev/nvme2n1" }] };
  const says = {
    paused: ["2 h 0 min ago", "it survives 1 more failure", "S64HNE0T510742", "Resume the rebuild: the spare is ready.", "Do not leave it paused overnight."],
    member_silent: ["3 min ago", "bay 6 of SuperMicro JBOF 1", "S64HNE0T510605", "If it stays silent, fail it: a spare takes over.", "Do not kill the process"],
    read_only: ["6 min ago", "reading the write log failed: I/O error", "then stop the array and start it again", "Do not create, wipe or force anything on these drives."],
  };
  for (const [scene, words] of Object.entries(says)) {
    await on(scene, async (page, server) => {
      const one = page.locator(".case").first();
      await one.waitFor();
      // The places of drives are told later than the state.
      await one.getByText(words.find((word) => word.startsWith("bay ")) ?? words.at(-1)).first().waitFor();
      const said = `${await page.locator(".verdict").innerText().then(spaced)} ${await one.innerText().then(spaced)}`;
      for (const word of words) assert.ok(said.includes(word), `${word} in: ${said}`);
      await titled(page, "(1) matter needs you – box.example");
      // Nobody is sent for a drive while a spare is there.
      assert.equal(await page.getByText(/Add a drive/).count(), 0);
      if (!orders[scene]) return assert.equal(await one.getByRole("button").count(), 0);
      const [name, action] = orders[scene];
      await one.getByRole("button", { name }).click();
      await page.getByRole("button", { name: "Do it" }).click();
      await page.getByText(/Done at \d/).waitFor();
      assert.deepEqual(JSON.parse(server.asked.find(({ path }) => path === "/api/v1/jobs").body.token), action);
    });
  }
});

test("the server says what is wrong, the page words it: every kind of matter in the reader's language, an unknown one in the server's words", async () => {
  const spec = JSON.parse(readFileSync(new URL("../../docs/openapi.json", import.meta.url), "utf8"));
  const kinds = spec.components.schemas.MatterKind.oneOf.map((one) => one.const);
  assert.ok(kinds.length > 9, "the contract names the kinds");
  const alarms = ["DriveReplace", "DriveWatch", "CacheUnflushed", "SlowMember", "SparesMissing", "FailSpare", "Unreadable"];
  SCENES.all = () => ({ ...SCENES.degraded(), matters: [...[...kinds, ...alarms].map((kind) => matter("tank", kind, "critical", { drives: ["/dev/nvme3n1"] })), matter("tank", "Unheard", "warning")] });
  for (const locale of ["en-GB", "de-DE", "ru-RU"]) {
    await on(
      "all",
      async (page) => {
        const titles = page.locator(".case h2:not(.hidden)");
        assert.equal(await titles.count(), kinds.length + alarms.length);
        const said = await page.locator(".verdict h1, .case h2:not(.hidden)").evaluateAll((all) => all.map((one) => [one.textContent, one.querySelector("[lang=en]") !== null]));
        assert.deepEqual(said.filter(([, is_servers]) => is_servers), [["tank: Unheard", true]]);
        assert.deepEqual(said.filter(([text]) => /[{}]/.test(text)), [], "every value is filled in");
        await titles.last().click();
        await page.getByText("what not to do").waitFor();
      },
      { locale },
    );
  }
  // Nothing that the server does not tell: a state alone makes no matter.
  SCENES.untold = () => ({ ...SCENES.degraded(), matters: [] });
  await on("untold", async (page) => {
    await page.getByRole("heading", { level: 1, name: "All is well." }).waitFor();
  });
});

test("a matter has its time; its alarm stands on the page of alarms, where every channel is tested", async () => {
  const text = "tank has no spare, and should have 1";
  const since_ms = Date.now() - 7_200_000;
  const spares = matter("tank", "SparesMissing", "warning", { since_ms, remedies: [{ action: "add", array: "tank", drive: "", span: null }] });
  const alarms = [{ event: "SparesMissing", array: "tank", component: "", text, since_s: since_ms / 1000 }];
  SCENES.spareless = () => ({ ...SCENES.well(), matters: [spares], alarms });
  await on("spareless", async (page) => {
    await page.getByRole("heading", { level: 1, name: "Array tank has too few spares." }).waitFor();
    await page.getByText("2 h 0 min ago").first().waitFor();
    await page.getByRole("button", { name: "Add nvme12n1: show the plan" }).waitFor();
    await page.getByRole("link", { name: "Alarms" }).click();
    await page.getByText(text).waitFor();
    await page.getByRole("button", { name: "Send a test" }).click();
    await page.getByText("connection refused").waitFor();
  });
});

test("whoever knows of an alarm says so, and the first screen still says what is wrong", async () => {
  const since_ms = Date.now() - 7_200_000;
  const spares = matter("tank", "SparesMissing", "warning", { since_ms });
  const alarms = ["SparesMissing", "SlowMember"].map((name) => ({ event: name, array: "tank", component: name === "SlowMember" ? "/dev/nvme2n1" : null, text: `so: ${name}`, since_s: since_ms / 1000 }));
  SCENES.acknowledging = () => ({ ...SCENES.well(), matters: [spares], alarms });
  const headline = { level: 1, name: "Array tank has too few spares." };
  await on("acknowledging", async (page, server) => {
    await page.getByRole("heading", headline).waitFor();
    assert.equal(await page.getByText("knows of it").count(), 0);
    await page.getByRole("link", { name: "Alarms" }).click();
    await page.getByRole("button", { name: "I know of it tank SparesMissing" }).click();
    const asked = await until_asked(server, "/api/v1/alarms/acknowledge");
    assert.deepEqual(asked.body, { event: "SparesMissing", array: "tank", component: null, undo: false });
    await page.getByText(/root \(user 0\) knows of it, since \d+:\d+/).waitFor();
    assert.equal(await page.getByText("knows of it").count(), 1, "of this one alone");
    await page.getByRole("button", { name: "I know of it tank SlowMember /dev/nvme2n1" }).waitFor();
    await page.getByRole("link", { name: "Now" }).click();
    await page.getByRole("heading", headline).waitFor();
    await page.getByText(/root \(user 0\) knows of it, since \d+:\d+/).waitFor();
    await page.getByRole("link", { name: "Alarms" }).click();
    await page.getByRole("button", { name: "Take back tank SparesMissing" }).click();
    await page.getByRole("button", { name: "I know of it tank SparesMissing" }).waitFor();
    assert.equal(await page.getByText("knows of it").count(), 0);
    // A note stands with it, also on the first screen, and is text there.
    await page.getByLabel("Note (optional) tank SparesMissing").fill(" a <b>spare</b> is\u202e ordered ");
    await page.getByRole("button", { name: "I know of it tank SparesMissing" }).click();
    const noted = await until_asked(server, "/api/v1/alarms/acknowledge", (body) => body.note !== undefined);
    assert.equal(noted.body.note, "a <b>spare</b> is\u202e ordered");
    const note = page.getByText("Note: a <b>spare</b> is\ufffd ordered");
    await note.waitFor();
    await page.getByRole("link", { name: "Now" }).click();
    await note.waitFor();
  });
  SCENES.acknowledging = () => ({ ...SCENES.well(), matters: [spares], alarms, user: { name: "eve", role: "view", via: "token" } });
  await on("acknowledging", async (page, server) => {
    await page.getByRole("link", { name: "Alarms" }).click();
    await page.getByRole("button", { name: "I know of it tank SparesMissing" }).click({ force: true });
    await page.getByText(/operate/).first().waitFor();
    assert.ok(!server.asked.some(({ path }) => path.endsWith("acknowledge")));
  });
});

test("a drive of firmware RAID tells its volume and what that lacks, or why that cannot be told, in any language", async () => {
  const volume = { name: "Vol0", uuid: "1", format: "IMSM", level: "raid5", member_count: 4, slot: 0, missing_slots: [1, 3], rebuilding_slots: [2], clean: false };
  const said = { code: "volume-changes-shape", values: { volume: "Vol1" } };
  const carries = { free: false, carries: ["Intel RAID (IMSM) member (1.3.00)"] };
  const more = [
    { path: "/dev/sdg", ...carries, volumes: [volume, { ...volume, name: "Vol9", uuid: "2", format: "DDF", level: "raid1", member_count: 2, slot: 1, missing_slots: [], rebuilding_slots: [] }] },
    { path: "/dev/sdh", ...carries, volumes_error: 'volume "Vol1" is being changed to another shape; let mdadm or the mainboard finish that', volumes_error_said: said },
  ];
  SCENES.firmware = () => {
    const scene = SCENES.shared();
    return { ...scene, drives: [...scene.drives, ...more.map(({ path, ...one }) => ({ ...scene.drives[0], path, serial: path, member: null, users: [], ...one }))] };
  };
  const words = {
    "en-GB": ["Belongs to volume “Vol0” of an Intel set: RAID 5 on 4 drives, slot 0. The members of slots 1, 3 are missing. Slot 2 is being filled.", "Belongs to volume “Vol9” of a DDF set: RAID 1 on 2 drives, slot 1.", 'volume "Vol1" is being changed to another shape; let mdadm or the mainboard finish that'],
    "de-DE": ["Gehört zum Volume „Vol0“ eines Intel-Verbunds: RAID 5 auf 4 Laufwerken, Platz 0. Die Laufwerke der Plätze 1, 3 fehlen. Platz 2 wird gefüllt.", "Gehört zum Volume „Vol9“ eines DDF-Verbunds: RAID 1 auf 2 Laufwerken, Platz 1.", "Volume „Vol1“ erhält gerade eine andere Form; mdadm oder das Mainboard muss das abschließen"],
    "ru-RU": ["Входит в том «Vol0» набора Intel: RAID 5 на 4 накопителях, слот 0. Нет членов в слотах 1, 3. Заполняется слот 2.", "Входит в том «Vol9» набора DDF: RAID 1 на 2 накопителях, слот 1.", "том «Vol1» перестраивается; дайте mdadm или материнской плате закончить"],
  };
  for (const [locale, texts] of Object.entries(words)) {
    const look = async (page) => {
      for (const text of texts) await page.getByText(text, { exact: true }).waitFor();
      // What a language has words for is not marked as English.
      if (locale !== "en-GB") assert.equal(await page.locator(".drive [lang=en]", { hasText: "another shape" }).count(), 0);
    };
    await on("firmware", look, { place: "drives", locale });
    const left = async (page) => {
      const member = page.locator("li", { hasText: "/dev/sdg" }).first();
      await member.waitFor();
      const english = await member.locator("[lang=en]").allInnerTexts().then((all) => all.map(spaced));
      const own = { "en-GB": "its metadata belong to firmware", "de-DE": "seine Metadaten gehören der Firmware", "ru-RU": "его метаданные принадлежат прошивке" };
      assert.ok((await member.innerText().then(spaced)).includes(own[locale]));
      if (locale !== "en-GB") assert.deepEqual(english, ["Intel RAID (IMSM) member (1.3.00)"]);
    };
    await on("shared", left, { place: "arrays", locale });
  }
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
    await page.getByRole("button", { name: "Add nvme12n1: show the plan" }).waitFor();
    await press(/^Add nvme12n1: show the plan$/);
    await page.getByRole("dialog").waitFor();
    await press(/^Choose another drive$/);
    await press(/^Show the plan$/);
    await page.getByText("What will be written where").first().waitFor();
    // A screen reader goes on where the next step begins.
    await page.locator(".step:focus", { hasText: "Step 1 of 2" }).waitFor();
    await press(/^Do it$/);
    await page.getByText(/Done at \d/).waitFor();
    const asked = server.asked.find((one) => one.path === "/api/v1/jobs");
    assert.equal(JSON.parse(asked.body.token).drive, "/dev/nvme12n1");
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    assert.match(await page.evaluate(() => document.activeElement?.textContent ?? ""), /Add nvme12n1/);
  });
});

test("the keyboard alone makes an array, and each step has the focus when it comes", async () => {
  await on(
    "empty",
    async (page, server) => {
      const focused = () => page.evaluate(() => ({ text: document.activeElement?.textContent ?? "", kind: document.activeElement?.type }));
      const go = async (is_it) => {
        for (let steps = 0; steps < 40; steps += 1) {
          await page.keyboard.press("Tab");
          if (is_it(await focused())) return;
        }
        throw new Error(`no Tab reaches ${is_it}`);
      };
      await page.getByRole("checkbox").nth(4).waitFor();
      for (let drives = 0; drives < 3; drives += 1) {
        await go(({ kind }) => kind === "checkbox");
        await page.keyboard.press("Space");
      }
      await go(({ text }) => text === "Next");
      await page.keyboard.press("Enter");
      await page.getByText("How shall 3 drives keep data?").waitFor();
      await page.locator("ol.steps:focus").waitFor();
      await go(({ kind }) => kind === "radio");
      await go(({ text }) => text === "Next");
      await page.keyboard.press("Enter");
      await page.getByRole("textbox").waitFor();
      await page.locator("ol.steps:focus").waitFor();
      await go(({ kind }) => kind === "text");
      await page.keyboard.type("tank");
      await page.keyboard.press("Enter");
      await page.getByText("What is lost for good").waitFor();
      assert.deepEqual((await until_asked(server, "/api/v1/plans")).body.drives.length, 3);
    },
    { place: "create" },
  );
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

test("a session that ends while the name is typed asks for the login, and the plan is made anew after it", async () => {
  SCENES.ending = () => ({ ...SCENES.stopped(), user: { name: "alice", role: "admin", via: "session", csrf: "1" } });
  await on(
    "ending",
    async (page, server) => {
      await page.getByRole("button", { name: "Destroy…" }).click();
      const [name, go] = [page.getByRole("dialog").getByRole("textbox"), page.getByRole("dialog").getByRole("button", { name: "Do it" })];
      await name.fill("tank");
      server.change({ ...SCENES.ending(), accounts: { alice: "open sesame" } });
      await go.click();
      await page.getByLabel("User name").fill("alice");
      assert.equal(await page.getByRole("dialog").count(), 0, "nothing lies over the login");
      assert.match(await page.title(), /^Log in/);
      await page.getByText("Your session has ended.").waitFor();
      assert.deepEqual(await axe(page), []);
      await page.getByLabel("Password").fill("open sesame");
      await page.getByRole("button", { name: "Log in" }).click();
      await name.waitFor();
      assert.ok((await name.inputValue()) === "" && (await go.isDisabled()), "the name is typed again");
      assert.deepEqual(server.asked.map(({ path }) => path).filter((path) => path.startsWith("/api/v1/")), ["/api/v1/plans", "/api/v1/session", "/api/v1/plans"]);
    },
    { place: "arrays/tank" },
  );
});

test("a session that ends while a job is followed, or a configuration is written, loses neither", async () => {
  const user = { name: "alice", role: "admin", via: "session", csrf: "1" };
  const log_in = async (page, server, scene) => {
    server.change({ ...scene, accounts: { alice: "open sesame" } });
    // The next request that the server gets is refused.
    await page.evaluate(() => fetch("/api/v1/session"));
    await page.getByText("Your session has ended.").waitFor();
    assert.ok(await page.getByLabel("User name").evaluate((field) => field === document.activeElement), "the first field has the focus");
    await page.keyboard.type("alice");
    await page.getByLabel("Password").fill("open sesame");
    await page.keyboard.press("Enter");
  };
  SCENES.followed = () => ({ ...SCENES.well(), user, job: { state: "running", text: "it goes on", ended_ms: null } });
  await on(
    "followed",
    async (page, server) => {
      await page.getByRole("button", { name: "Scrub…" }).click();
      await page.getByRole("dialog").getByRole("button", { name: "Do it" }).click();
      await page.getByRole("dialog").getByText("it goes on", { exact: true }).waitFor();
      await log_in(page, server, SCENES.followed());
      await page.getByRole("dialog").getByText("it goes on", { exact: true }).waitFor();
      assert.equal(await page.getByRole("button", { name: "Do it" }).count(), 0);
      assert.equal(server.asked.filter(({ path }) => path === "/api/v1/plans").length, 1, "nothing is offered again");
    },
    { place: "arrays/tank" },
  );
  let is_changed = true;
  const refuse = (method, path) => (is_changed && method === "PUT" && path === "/api/v1/config" ? { status: 409, kind: "plan_changed", message: "the configuration was changed by somebody else since it was read: read it again" } : null);
  SCENES.written = () => ({ ...SCENES.well(), user, refuse });
  await on(
    "written",
    async (page, server) => {
      const card = page.locator("section", { has: page.getByRole("heading", { name: "Configuration of the daemon" }) });
      const mine = card.getByRole("textbox").first();
      await mine.fill("[spares]\n");
      await log_in(page, server, SCENES.written());
      await card.waitFor();
      assert.equal(await mine.inputValue(), "[spares]\n");
      await card.getByRole("button", { name: "Save and apply" }).click();
      server.change({ ...SCENES.written(), config: { text: "[alarms]\n", tag: "2" } });
      await card.getByRole("button", { name: "Read again" }).click();
      await card.getByText("The file as it is now.").waitFor();
      assert.deepEqual(await card.getByRole("textbox").evaluateAll((all) => all.map((one) => one.value)), ["[spares]\n", "[alarms]\n"]);
      assert.deepEqual(await axe(page), []);
      is_changed = false;
      await card.getByRole("button", { name: "Save and apply" }).click();
      assert.deepEqual((await until_asked(server, "/api/v1/config")).body, { text: "[spares]\n", tag: "2" });
    },
    { place: "settings" },
  );
});

test("a configuration that is not saved for its faults names each with its line", async () => {
  const faults = [{ line: 3, text: "[nbd] clients: invalid type" }, { line: 7, text: "[daemn]: unknown field" }];
  SCENES.faulty = () => ({ ...SCENES.well(), faults, refuse: (method, path) => (method === "PUT" && path === "/api/v1/config" ? { status: 400, kind: "invalid", message: "the configuration was not changed, as it would be invalid" } : null) });
  await on(
    "faulty",
    async (page) => {
      const card = page.locator("section", { has: page.getByRole("heading", { name: "Configuration of the daemon" }) });
      await card.getByRole("textbox").fill("[daemn]\n");
      await card.getByRole("button", { name: "Save and apply" }).click();
      await card.getByText("Nothing was saved:").waitFor();
      assert.deepEqual((await card.getByRole("listitem").allInnerTexts().then((all) => all.map(spaced))).map((text) => text.trim()), ["3: [nbd] clients: invalid type", "7: [daemn]: unknown field"]);
      assert.deepEqual(await axe(page), []);
    },
    { place: "settings" },
  );
});

test("hostile names are text: nothing of them runs, and none turns a sentence around", async () => {
  await on("hostile", async (page) => {
    const array = `arrays/${encodeURIComponent(SCENES.hostile().arrays[0].name)}`;
    for (const place of ["", "arrays", array, "drives", "create", "activity", "alarms", "settings", "plan"]) {
      await page.goto(`${page.url().split("#")[0]}#/${place === "plan" ? "" : place}`);
      await page.locator("main h1").first().waitFor();
      if (place === "plan") {
        await page.getByRole("button", { name: /^Add .*: show the plan$/ }).click();
        await page.getByRole("button", { name: "Choose another drive" }).click();
        await page.getByRole("dialog").getByRole("radio").first().check();
        for (const width of [390, 1440]) {
          await page.setViewportSize({ width, height: 900 });
          assert.deepEqual(await sticking_out(page), [], `${place} at ${width}`);
        }
      }
      const found = await page.evaluate(() => ({ made: document.querySelectorAll("main img, dialog :is(img, script, u, i), main script, main b b, main u, main i, main svg[onload], a[href^=javascript]").length, turned: /[\u202a-\u202e\u2066-\u2069]/.test(document.body.innerText), hidden: /[\p{Default_Ignorable_Code_Point}\p{Co}\u2800]/u.test(document.body.innerText) }));
      assert.deepEqual(found, { made: 0, turned: false, hidden: false }, place);
    }
  });
});

test("a server that is gone is named, with the time since; nothing acts meanwhile, and all comes back", async () => {
  const first = await mock("degraded");
  const { port } = new URL(first.url);
  const { page, faults, context } = await open(chromium, first.url);
  await page.getByRole("button", { name: "Add nvme12n1: show the plan" }).waitFor();
  await first.close();
  await page.getByText(/No answer since (?:\d{1,2} \w+, )?\d\d:\d\d/).waitFor();
  assert.ok(await page.getByRole("button", { name: "Add nvme12n1: show the plan" }).isDisabled());
  assert.match(await page.title(), /^No answer/);
  assert.deepEqual(await axe(page), []);
  const second = await mock("well", Number(port));
  await page.getByRole("heading", { level: 1, name: "All is well." }).waitFor();
  assert.equal(await page.getByText(/No answer since/).count(), 0);
  assert.deepEqual(faults, []);
  await context.close();
  await second.close();
});

test("a page that is left alone asks without counting as a use of its session", async () => {
  const asked = [];
  const refuse = (method, path, headers) => (path.startsWith("/api/") && path !== "/api/v1/stream" && asked.push([path, headers["x-stria-unattended"] ?? "counts"]), null);
  SCENES.alone = () => ({ ...SCENES.shared(), refuse });
  const until = async (path) => {
    for (let tries = 0; !asked.some((one) => one[0] === path); tries += 1) {
      assert.ok(tries < 400, `${path} is not asked`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  };
  await on(
    "alone",
    async (page, server) => {
      await page.getByText("taken by").waitFor();
      await page.getByText("box.example").waitFor();
      assert.ok(asked.some(([path, counts]) => path === "/api/v1/spares" && counts === "counts"), "the reader has opened it");
      await new Promise((resolve) => setTimeout(resolve, 1000));
      asked.length = 0;
      server.change({ ...SCENES.alone(), alarms: [{ event: "DriveReplace", array: "tank", component: "/dev/nvme2n1", text: "worn", since_s: 0 }] });
      await until("/api/v1/spares");
      // A stream that is opened again asks for events.
      server.mute();
      await until("/api/v1/events");
      assert.deepEqual(asked.filter(([, counts]) => counts === "counts"), []);
    },
    { place: "drives" },
  );
});

test("Cockpit's refusal of the socket, and a daemon that does not run, are told with their remedy", async () => {
  for (const [problem, words] of [["access-denied", "turn on administrative access in Cockpit, or become a member of the group stria"], ["not-found", "The daemon does not run: systemctl status stria says why."]]) {
    const server = await mock("well");
    const context = await chromium.newContext({ locale: "en-GB" });
    const page = await context.newPage();
    // As cockpit.js: a request is a promise with two more functions.
    await page.addInitScript((problem) => {
      const request = () => {
        const promise = Promise.reject({ problem, message: "Not permitted", status: undefined });
        return Object.assign(promise, { response: () => promise, stream: () => promise, close: () => undefined });
      };
      window.cockpit = { http: () => ({ request }) };
    }, problem);
    try {
      await page.goto(server.url);
      await page.getByText(words).waitFor();
      assert.equal(await page.getByText(/No answer since|has not answered yet/).count(), 0);
    } finally {
      await context.close();
      await server.close();
    }
  }
});

test("a stream that says nothing more and is not closed is opened again", async () => {
  await on("well", async (page, server) => {
    await page.getByRole("heading", { level: 1, name: "All is well." }).waitFor();
    server.mute();
    server.change(SCENES.degraded());
    // "No answer since" may stand for less than a frame.
    await page.getByRole("heading", { level: 1, name: /Array tank has lost a drive/ }).waitFor();
    await page.getByText(/No answer since/).waitFor({ state: "hidden" });
  });
});

test("the page lies below another path of a reverse proxy: it asks for nothing outside of it", async () => {
  const look = async (page) => {
    const outside = [];
    page.on("request", (request) => new URL(request.url()).pathname.startsWith("/proxy/") || outside.push(request.url()));
    await page.getByRole("heading", { level: 1, name: "Array tank has lost a drive" }).waitFor();
    await page.getByText(/is free and fits/).waitFor();
    await page.getByRole("button", { name: /show the plan/ }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Do it" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Close" }).last().click();
    await page.getByRole("link", { name: "Settings" }).click();
    assert.match(await page.getByRole("link", { name: "plan.html" }).getAttribute("href"), /^\/proxy\/api\/v1\/reports\//);
    assert.deepEqual(outside, []);
  };
  await on("degraded", look, { below: "proxy/" });
});

test("a window that was closed while its order was on the way comes back for a refusal only, and never in place of another", async () => {
  const ordered = async (page, status) => {
    let answer;
    const gate = new Promise((resolve) => (answer = resolve));
    const answered = page.waitForResponse((response) => response.url().endsWith("/api/v1/jobs") && response.request().method() === "POST");
    await page.route("**/api/v1/jobs", async (route) => {
      if (route.request().method() !== "POST") return route.continue();
      await gate;
      await (status === 200 ? route.continue() : route.fulfill({ status, json: { error: { kind: "conflict", message: "tank has changed since the plan was made" } } }));
    });
    await page.getByText(/is free and fits/).waitFor();
    await page.getByRole("button", { name: /show the plan/ }).first().click();
    await page.getByRole("dialog").getByRole("button", { name: "Do it" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Close" }).last().click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    return async () => {
      answer();
      await answered;
      // What the answer changes is on the screen two frames later.
      await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
    };
  };
  const window = (page) => page.getByRole("dialog");
  await on("degraded", async (page) => {
    await (await ordered(page, 200))();
    assert.equal(await window(page).count(), 0);
  });
  await on("degraded", async (page, server) => {
    await (await ordered(page, 409))();
    await window(page).getByText("tank has changed since the plan was made").waitFor();
    const plans = () => server.asked.filter(({ path }) => path === "/api/v1/plans").length;
    assert.equal(plans(), 1, "a refusal is read before anything is planned anew");
    await window(page).getByRole("button", { name: "Try again" }).click();
    await window(page).getByRole("button", { name: "Do it" }).waitFor();
    assert.equal(plans(), 2);
  });
  for (const status of [200, 409]) {
    await on("degraded", async (page) => {
      const answer = await ordered(page, status);
      await page.goto(`${page.url().split("#")[0]}#/arrays/tank`);
      await page.getByRole("button", { name: "Stop" }).first().click();
      const title = () => window(page).getByRole("heading", { level: 2 }).innerText().then(spaced);
      const before = await title();
      await answer();
      assert.equal(await title(), before);
    });
  }
});

test("whoever has renamed or destroyed an array is not left on the page of what is no longer there", async () => {
  const order = async (page, press) => {
    await press();
    const window = page.getByRole("dialog");
    const name = window.getByRole("textbox");
    await window.getByRole("button", { name: "Do it" }).waitFor();
    if (await name.count()) await name.fill("tank");
    await window.getByRole("button", { name: "Do it" }).click();
    await window.getByText(/Done at \d/).waitFor();
    await window.getByRole("button", { name: "Close" }).last().click();
  };
  SCENES.renamed = () => {
    const scene = SCENES.stopped();
    const refuse = (method, path) => (method === "POST" && path === "/api/v1/jobs" && (scene.arrays[0].name = "lake"), null);
    return Object.assign(scene, { refuse });
  };
  const renames = async (page) => {
    await page.locator("form.rename input").fill("lake");
    await order(page, () => page.locator("form.rename button").click());
    await page.waitForURL(/#\/arrays(\/lake)?$/);
  };
  await on("renamed", renames, { place: "arrays/tank" });
  const destroys = async (page) => {
    await order(page, () => page.locator("button.danger").click());
    await page.waitForURL(/#\/arrays$/);
  };
  await on("stopped", destroys, { place: "arrays/tank" });
});

test("seven tabs share one stream, which goes on when its tab closes; none of them shows an old state as new", async () => {
  const server = await mock("well");
  const { page, faults, context } = await open(chromium, server.url);
  const tabs = [page];
  for (let count = 1; count < 7; count += 1) {
    const tab = await context.newPage();
    tab.setDefaultTimeout(10_000);
    await tab.goto(server.url);
    await tab.getByRole("heading", { level: 1, name: "All is well." }).waitFor();
    tabs.push(tab);
  }
  assert.equal(server.stream_count(), 1);
  server.change(SCENES.degraded());
  for (const tab of tabs) await tab.getByRole("heading", { level: 1, name: /^Array tank has lost a drive/ }).waitFor();
  // The first tab had the stream.
  await tabs.shift().close();
  server.change(SCENES.well());
  for (const tab of tabs) await tab.getByRole("heading", { level: 1, name: "All is well." }).waitFor();
  assert.equal(server.stream_count(), 1);
  for (const tab of tabs) assert.equal(await tab.getByText(/No answer since/).count(), 0);
  await server.close();
  for (const tab of tabs) await tab.getByText(/No answer since (?:\d{1,2} \w+, )?\d\d:\d\d/).waitFor();
  assert.deepEqual(faults, []);
  await context.close();
});

test("a window that is open while the server is gone says so, and what it shows stands still", async () => {
  SCENES.filling = () => ({ ...SCENES.rebuilding(), job: { state: "running", task: SCENES.rebuilding().arrays[0].tasks[0], ended_ms: null } });
  const server = await mock("filling");
  const { page, faults, context } = await open(chromium, `${server.url}#/arrays/tank`);
  const window = page.getByRole("dialog");
  await page.getByRole("button", { name: "Scrub…" }).click();
  await window.getByRole("button", { name: "Do it" }).click();
  await window.getByText(/Done at about/).waitFor();
  assert.equal(await window.getByText(/No answer since/).count(), 0);
  await server.close();
  await window.getByText(/No answer since (?:\d{1,2} \w+, )?\d\d:\d\d/).waitFor();
  assert.deepEqual([await axe(page), await sticking_out(page)], [[], []]);
  // Three minutes later the rebuild still ends at the same time.
  const ends = await window.getByText(/Done at about/).innerText().then(spaced);
  await page.evaluate(() => {
    const present = Date.now;
    Date.now = () => present() + 180_000;
  });
  await window.getByText(/No answer since .*\(3\smin\)/).waitFor();
  assert.equal(await window.getByText(/Done at about/).innerText().then(spaced), ends);
  assert.deepEqual(faults, []);
  await context.close();
});

test("a reader logs in with name and password where the server admits accounts, and with a token as well", async () => {
  SCENES.locked = () => ({ ...SCENES.well(), accounts: { alice: "open sesame" } });
  const server = await mock("locked");
  const { page, context } = await open(chromium, server.url);
  try {
    const button = page.getByRole("button", { name: "Log in" });
    await page.getByLabel("User name").fill("alice");
    assert.ok(await button.isDisabled());
    await page.getByLabel("Password").fill("open");
    assert.deepEqual(await axe(page), []);
    await button.click();
    await page.getByText("the login was refused").waitFor();
    await page.getByRole("button", { name: "Use a token" }).click();
    assert.equal(await page.getByLabel("User name").count(), 0);
    await page.getByLabel("Token").fill("stria_1");
    await button.click();
    await page.getByText("the login was refused").waitFor();
    assert.deepEqual((await until_asked(server, "/api/v1/session")).body, { token: "stria_1" });
    // The focus moves before the next frame: later it would take a reader's text into the other field.
    const focused = await page.getByRole("button", { name: "Use name and password" }).evaluate(async (button) => {
      button.click();
      for (let turns = 0; turns < 10; turns += 1) await null;
      return document.activeElement.labels?.[0].textContent;
    });
    assert.equal(focused, "User name");
    await page.getByLabel("Password").fill("open sesame");
    await page.getByLabel("Password").press("Enter");
    await page.getByRole("heading", { level: 1, name: "All is well." }).waitFor();
    assert.deepEqual((await until_asked(server, "/api/v1/session")).body, { user: "alice", password: "open sesame" });
  } finally {
    await context.close();
    await server.close();
  }
});

test("a reader who may only look finds everything, and every button that acts closed", async () => {
  SCENES.looker = () => ({ ...SCENES.degraded(), user: { name: "guest", role: "view", via: "token" } });
  await on("looker", async (page) => {
    const button = page.getByRole("button", { name: "Add nvme12n1: show the plan" });
    await button.waitFor();
    assert.ok(await button.isDisabled());
    assert.equal(await button.getAttribute("title"), "This takes the role operate; yours is view");
    // The steps say to press it: why it is closed stands beside it.
    await page.getByRole("status").getByText("This takes the role operate; yours is view").waitFor();
    await button.focus();
    await page.keyboard.press("Enter");
    assert.equal(await page.getByRole("dialog").count(), 0);
    for (const width of [360, 1280]) {
      await page.setViewportSize({ width, height: 800 });
      assert.deepEqual([await axe(page), await sticking_out(page)], [[], []], String(width));
    }
    // A phone and a keyboard have no pointer that rests on a button: a press says the same of every other.
    await page.getByRole("link", { name: "tank", exact: true }).first().click();
    const other = page.getByRole("button", { name: "Pause tasks" });
    await other.focus();
    await page.keyboard.press("Enter");
    await page.getByRole("status").getByText("This takes the role operate; yours is view").first().waitFor();
  });
  SCENES.operator = () => ({ ...SCENES.stopped(), user: { name: "guest", role: "operate", via: "token" } });
  const operator = async (page) => {
    await page.getByRole("button", { name: "Start…" }).waitFor();
    assert.equal(await page.getByRole("button", { name: "Destroy…" }).getAttribute("title"), "This takes the role admin; yours is operate");
    assert.ok(await page.getByRole("button", { name: "Start…" }).isEnabled());
  };
  await on("operator", operator, { place: "arrays/tank" });
});

test("an array is made in three steps, each with what it gives", async () => {
  await on(
    "empty",
    async (page, server) => {
      // `all` waits for none.
      await page.getByRole("checkbox").nth(4).waitFor();
      for (const box of await page.getByRole("checkbox").all()) await box.check();
      await page.getByRole("button", { name: "Next" }).click();
      await page.getByText("How shall 5 drives keep data?").waitFor();
      // Without a model of these drives there are laws alone, and the page says so; with one, the planner's figures stand beside each level.
      await page.getByText("Speed is not forecast.").waitFor();
      assert.equal(await page.locator(".planned").count(), 0);
      await page.getByLabel("Drives like").selectOption("p4510");
      await page.getByText("the planner's models of Intel SSD DC P4510").waitFor();
      const six = await page.locator(".level", { hasText: "RAID 6" }).innerText().then(spaced);
      for (const words of ["218,100", "293 µs", "28 min", "below 1 in 1,000,000"]) assert.ok(six.includes(words), `${words} in: ${six}`);
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

test("who sets larger letters in the browser gets all text larger, and nothing sticks out; fields of a row are level", async () => {
  for (const [scene, place] of [["degraded", ""], ["degraded", "arrays/tank"], ["degraded", "settings"], ["many", "drives"], ["degraded", "activity"]]) {
    const look = async (page) => {
      // As the browser's own setting does; all of it in one turn, because what is measured is replaced when the server has answered.
      const kept_small = await page.evaluate(() => {
        const texts = [...document.querySelectorAll("main *")].filter((part) => !part.closest("svg") && [...part.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim()));
        const sizes = () => texts.map((part) => parseFloat(getComputedStyle(part).fontSize));
        const before = sizes();
        document.documentElement.style.fontSize = "200%";
        const after = sizes();
        // Titles and large figures follow the window's width too, and grow by half at least.
        const by = (index) => after[index] / before[index];
        return texts.filter((_, index) => (before[index] < 20 ? Math.abs(by(index) - 2) > 0.01 : !(by(index) >= 1.5))).map((part) => part.outerHTML.slice(0, 200)).concat(texts.length > 0 ? [] : ["there is no text"]);
      });
      assert.deepEqual(kept_small, [], `${scene} ${place}`);
      assert.deepEqual(await sticking_out(page), [], `${scene} ${place}`);
      const heights = await page.locator(".filters").locator("select, input[type=search]").evaluateAll((all) => all.map((one) => one.offsetHeight));
      assert.equal(new Set(heights).size, Math.min(1, heights.length), `${scene} ${place}: ${heights}`);
    };
    await on(scene, look, { place, viewport: { width: 1280, height: 900 }, locale: "de-DE" });
  }
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

test("a number takes its form in Russian, also a fraction", async () => {
  const { build } = await import("esbuild");
  globalThis.navigator ??= { languages: ["en"] };
  const made = await build({ stdin: { contents: 'export { chosen, t } from "./words.ts";', resolveDir: new URL("../src", import.meta.url).pathname, loader: "ts" }, bundle: true, format: "esm", write: false });
  const { chosen, t } = await import(`data:text/javascript;base64,${Buffer.from(made.outputFiles[0].text).toString("base64")}`);
  chosen.value = "ru";
  for (const [n, words] of [[2, "в 2 раза"], [3, "в 3 раза"], [5, "в 5 раз"], [21, "в 21 раз "]]) assert.ok(t("slow_by", { n }).includes(words), t("slow_by", { n }));
  for (const [times, words] of [[5, "5 раз больше"], [2, "2 раза больше"], [2.5, "2,5 раза больше"]]) {
    for (const key of ["limits_known", "limits_lane"]) assert.ok(t(key, { times, drive: "x", percent: "1", n: 1 }).includes(words), t(key, { times, drive: "x", percent: "1", n: 1 }));
  }
  chosen.value = "en";
  assert.ok(t("limits_known", { times: 2.5, drive: "x", percent: "1" }).includes("2.5 times"));
});

test("a search waits for a pause in typing, and events that no file has yet are said to be so", async () => {
  let searches = 0;
  const refuse = (method, path) => (path === "/api/v1/events" && (searches += 1), null);
  SCENES.searched = () => ({ ...SCENES.well(), unstored: 3, refuse });
  await on(
    "searched",
    async (page) => {
      await page.getByText("3 events are in no file yet, and a restart would lose them").waitFor();
      searches = 0;
      await page.getByRole("searchbox").pressSequentially("nvme3n1 failed");
      await new Promise((resolve) => setTimeout(resolve, 1500));
      assert.ok(searches >= 1 && searches < 5, `${searches} searches`);
    },
    { place: "activity" },
  );
});

test("orders, their givers and alarms are words of the reader's language, and are found by them", async () => {
  const by = "root (user 0), process 1234";
  const from_web = "session of alice (user 1000) from 192.0.2.7";
  const event = (sequence, kind, text, code, values) => ({ sequence, time_ms: Date.now() - 60_000 + sequence, array: "tank", kind, text, said: { code, values } });
  const scrub = { code: "order-repair", values: { of: "tank" } };
  const speed = { code: "order-speed", values: { of: "tank", bounds: { min_bytes_per_s: 1 << 20, max_bytes_per_s: null, percentile: "99", bound_us: 5000 } } };
  const alarm = (sequence, name) => event(sequence, "alarm", `${name} on array tank (by mail)`, "alarm-raised", { alarm: name, array: "tank", component: null, channels: ["mail"], detail: null });
  const events = [
    event(1, "ordered", `${by} ordered: scrub with repair in array "tank"; done`, "order-done", { by, order: scrub }),
    event(2, "ordered", `${from_web} ordered: bounds; taken`, "order-taken", { by: from_web, order: speed }),
    event(3, "ordered", `token ci from 192.0.2.8 ordered: GET /x; done`, "order-done", { by: "token ci from 192.0.2.8", order: { code: "order-other", values: { text: "GET /x" } } }),
    alarm(4, "Fail"),
    alarm(5, "Rebuild40"),
    alarm(6, "OfTomorrow"),
  ];
  const ended = (id, action, state, text, ends) => ({ id, action, title: "", said: { code: "resume-sweeps", values: { array: "tank" } }, by, state, text, ends, task: null, started_ms: Date.now() - 60_000, ended_ms: Date.now() });
  const jobs = [
    ended(1, { action: "add", array: "tank", drive: "/dev/a" }, "failed", "the daemon ended before this job did: …", [{ code: "job-cut", values: {} }]),
    ended(2, { action: "scrub", array: "tank" }, "cancelled", "it was cancelled", [{ code: "sweep-cancelled", values: { sweep: "scrub", percent: 3, at_sector: 9 } }, { code: "job-cancelled-by", values: { by } }]),
  ];
  SCENES.orders = () => ({ ...SCENES.well(), events, jobs });
  const shown = (page) => page.locator(".events li").allTextContents().then((all) => all.map(spaced));
  const reads = (locale, words, sought, hit) =>
    on(
      "orders",
      async (page) => {
        await page.locator(".events li").nth(5).waitFor();
        const lines = [...(await shown(page)), ...(await page.locator(".job").allTextContents().then((all) => all.map(spaced)))].join("\n");
        for (const text of words) assert.ok(lines.includes(text), `${text}: ${lines}`);
        await page.getByRole("searchbox").fill(sought);
        await page.waitForFunction(() => document.querySelectorAll(".events li").length === 1);
        assert.ok((await shown(page))[0].includes(hit), sought);
      },
      { place: "activity", locale },
    );
  const german = ["Befehl von root (Benutzer 0), Prozess 1234: Prüfung von Verbund „tank“ mit Reparatur; erledigt", "Sitzung von alice (Benutzer 1000) von 192.0.2.7: Tempo", "mindestens 1 MiB/s, Latenz der Clients p99 = 5.000 µs", "Token ci von 192.0.2.8: GET /x", "Alarm „Laufwerk ausgefallen“", "zu 40 % fertig", "Alarm „OfTomorrow“", "der Dienst endete vor diesem Auftrag", "abgebrochen: root (Benutzer 0), Prozess 1234"];
  await reads("de-DE", german, "laufwerk ausg", "Laufwerk ausgefallen");
  await reads("de-DE", [], "OfTomorrow", "OfTomorrow");
  await reads("ru-RU", ["root (пользователь 0), процесс 1234: проверка массива «tank» с исправлением; выполнено", "сеанс alice (пользователь 1000), 192.0.2.7", "тревога «отказ накопителя»"], "отказ нак", "отказ накопителя");
  await reads("en-GB", [`${by} ordered: scrub with repair in array "tank"; done`, "Fail on array tank"], "Fail on", "Fail on array tank");
});

test("days after a preposition, several slots and several drives have their form", async () => {
  SCENES.for_days = () => {
    const scene = { ...SCENES.paused(), events: [] };
    Object.assign(scene.arrays[0].view, { missing_slots: [3, 5] });
    scene.arrays[0].view.members = scene.arrays[0].view.members.filter(({ slot }) => slot !== 3 && slot !== 5);
    scene.matters = [matter("tank", "paused", "critical", { since_ms: Date.now() - 3 * 86_400_000 })];
    return scene;
  };
  await on("for_days", (page) => page.getByText("also seit 3 Tagen").waitFor(), { locale: "de-DE" });
  await on("for_days", async (page) => {
    await page.getByRole("heading", { level: 1, name: "Array tank has lost 2 drives, and its rebuild is paused." }).waitFor();
    await page.getByText("The drives of slots 3, 5 are not here, and were not seen since the server started. They are none of these, which work:").waitFor();
  });
});

test("a refusal says in the reader's language what it means, before the server's English", async () => {
  let kind = "refused";
  SCENES.refusing = () => ({ ...SCENES.well(), refuse: (method, path) => (method === "POST" && path === "/api/v1/alarms/test" ? { status: 409, kind, message: `no, ${kind}` } : null) });
  const said = (locale, kinds) =>
    on(
      "refusing",
      async (page) => {
        for (const [one, words] of Object.entries(kinds)) {
          kind = one;
          await page.locator("main section").last().getByRole("button").click();
          await page.getByText(`no, ${one}`, { exact: true }).waitFor();
          assert.equal((await page.locator(".refused").innerText().then(spaced)).trim(), `${words}no, ${one}`);
        }
      },
      { place: "alarms", locale },
    );
  await said("en-GB", { refused: "", unsafe: "" });
  await said("de-DE", { refused: "Das geht zurzeit nicht: ", unsafe: "Es könnten Daten verloren gehen: ", failed: "Der Versuch ist gescheitert: ", of_tomorrow: "" });
  await said("ru-RU", { refused: "Сейчас это невозможно: ", plan_changed: "За это время всё изменилось: " });
});

test("what an order has done is told in the reader's language, a command as it is typed", async () => {
  const values = { array: "tank" };
  const made = [{ code: "array-made", values }, { code: "config-was-read-one", values: { served_count: 1 } }, { code: "array-served-at", values: { ...values, addresses: "/dev/ublkb0" } }, { code: "run-update-initramfs", values: {} }];
  const text = 'array "tank" is made; the configuration was read: 1 array, 1 served; array "tank" is served at /dev/ublkb0; run `update-initramfs -u`, as the boot image has a copy of it';
  const job = (id, action, ends, text) => ({ id, action, title: "", said: { code: "resume-sweeps", values }, by: "root (user 0)", state: "done", text, ends, task: null, started_ms: Date.now() - 60_000, ended_ms: Date.now() });
  const reason = 'cannot start array "lake": 2 of 4 members are missing or incomplete (slots 1, 2), and the array survives the loss of 1; /dev/a (slot 3) missed 7 superblock updates; attach the missing drives';
  const causes = [{ code: "member-missed", values: { drive: "/dev/a", slot: 3, update_count: 7 } }, { code: "attach-missing", values: {} }];
  const missing = { code: "members-missing", values: { missing_count: 2, slot_count: 4, slots: "1, 2", survives: "1", advice: "/dev/a (slot 3) missed 7 superblock updates; attach the missing drives", causes } };
  const failed = { ...job(3, { action: "start", array: "lake", force: false }, [{ code: "cannot-start", values: { array: "lake", reason: "2 of 4", cause: missing } }], reason), state: "failed" };
  SCENES.results = () => ({ ...SCENES.well(), events: [], jobs: [job(1, { action: "create", name: "tank" }, made, text), job(2, { action: "remove", array: "tank", drive: "/dev/a" }, null, "an answer of tomorrow"), failed] });
  const reads = (locale, words) =>
    on(
      "results",
      async (page) => {
        await page.locator(".job").nth(2).waitFor();
        const lines = (await page.locator(".job").allInnerTexts().then((all) => all.map(spaced))).join("\n");
        for (const text of words) assert.ok(lines.includes(text), `${text} in: ${lines}`);
        if (locale === "en-GB") return;
        assert.equal(await page.locator(".job code", { hasText: "update-initramfs -u" }).count(), 1);
        assert.deepEqual(await marked(page.locator("main")), ["an answer of tomorrow"]);
      },
      { place: "activity", locale },
    );
  await reads("de-DE", ["Verbund „tank“ ist angelegt; die Konfiguration ist neu gelesen: 1 Verbund, davon 1 in Betrieb", "Verbund „lake“ kann nicht starten: 2 von 4 Laufwerken fehlen oder sind unvollständig (Plätze 1, 2), und der Verbund übersteht 1 Ausfall; /dev/a (Platz 3) hat 7 Superblock-Änderungen verpasst; die fehlenden Laufwerke anschließen"]);
  await reads("ru-RU", ["массив «tank» создан", "массив «lake» не может запуститься: 2 из 4 накопителей отсутствуют или неполны (слоты 1, 2), а массив выдерживает 1 отказ; /dev/a (слот 3) пропустил обновлений суперблока: 7; подключите отсутствующие накопители"]);
  await reads("en-GB", ['array "tank" is made; the configuration was read: 1 array', "an answer of tomorrow"]);
});

/** What of the page is marked as English. */
const marked = (part) => part.locator('[lang="en"]').evaluateAll((all) => all.map((one) => one.textContent.trim()).filter((text) => text !== ""));

test("alarms, reasons, refusals and failed jobs are told in the reader's language; what has no words there stands in marked English", async () => {
  const reads = async (locale, words) => {
    const at = (place, work) => on("told", work, { place, locale });
    await at("alarms", async (page) => {
      const list = page.locator("section", { has: page.locator(".plain-list") }).first().locator("li");
      await list.nth(3).waitFor();
      const texts = (await list.allInnerTexts().then((all) => all.map(spaced))).join("\n");
      for (const text of words.alarms) assert.ok(texts.includes(text), `${text} in: ${texts}`);
      // Also where only the cause within a sentence is English.
      assert.deepEqual(await marked(list), ["write of 128 KiB at sector 2097152 failed: I/O error", "a finding without a code", "members on one link were lost"]);
    });
    await at("", async (page) => {
      await page.locator("details.case summary").nth(1).waitFor();
      for (const fold of await page.locator("summary").all()) await fold.click();
      const reasons = (await page.locator(".reason").allInnerTexts().then((all) => all.map(spaced))).join("\n");
      for (const text of words.reasons) assert.ok(reasons.includes(text), `${text} in: ${reasons}`);
      // The drive's own cause has no code.
      assert.deepEqual(await marked(page.locator("main")), ["write of 128 KiB at sector 2097152 failed: I/O error"]);
      await page.locator("article.case").getByText(/nvme12n1/).first().waitFor();
      await page.locator("article.case button.primary").click();
      await page.locator("dialog .refused").getByText(words.refusal).waitFor();
      assert.deepEqual(await marked(page.locator("dialog")), []);
    });
    await at("arrays", async (page) => {
      await page.locator("li", { hasText: "lake" }).getByText(words.waits).waitFor();
      assert.deepEqual(await marked(page.locator("main")), []);
    });
    await at("settings", (page) => page.getByText(words.reader).waitFor());
    const destroys = async (page) => {
      await page.locator("button.danger").click();
      await page.locator("dialog .loses li").nth(1).getByText(words.carries).waitFor();
      assert.deepEqual(await marked(page.locator("dialog .loses li").nth(1)), ['ext4 "backup"']);
    };
    await on("stopped", destroys, { place: "arrays/tank", locale });
    await on("degraded", (page) => page.getByRole("rowheader", { name: words.client }).waitFor(), { place: "arrays/tank", locale });
    const carries = async (page) => {
      const drive = page.locator(".drive", { hasText: "/dev/nvme13n1" });
      await drive.waitFor();
      assert.deepEqual(await marked(drive), ['ext4 file system "backup"']);
    };
    await on("degraded", carries, { place: "drives", locale });
    await at("activity", async (page) => {
      await page.locator(".events li").nth(4).waitFor();
      const texts = [...(await page.locator(".job").allInnerTexts().then((all) => all.map(spaced))), ...(await page.locator(".events li").allInnerTexts().then((all) => all.map(spaced)))].join("\n");
      for (const text of words.activity) assert.ok(texts.includes(text), `${text} in: ${texts}`);
    });
  };
  await reads("de-DE", {
    alarms: [
      "Laufwerk /dev/nvme3n1 von Verbund „tank“ wurde ausgeschlossen: write of 128 KiB at sector 2097152 failed: I/O error. Der Verbund übersteht noch einen Ausfall",
      "Laufwerk /dev/nvme2n1 bremst Verbund „tank“: es braucht 900 µs, die anderen 82 µs",
      "Laufwerk /dev/nvme1n1 von Verbund „tank“: 3 Medienfehler: ",
      "a finding without a code",
      "Laufwerk ausgefallen: members on one link were lost",
    ],
    reasons: ["„lake“ fehlen die Laufwerke der Plätze 1, 4. Verbund „lake“ wartet darauf und startet dann unvollständig", "bremst Verbund „tank“"],
    refusal: "Das geht zurzeit nicht: /dev/nvme12n1 liegt im Ersatzvorrat: zuerst aus dem Vorrat nehmen",
    waits: "„lake“ fehlen die Laufwerke der Plätze 1, 4.",
    reader: "root (Benutzer 0); darf alles",
    client: "Benutzer 64055, Prozess 812",
    carries: "/dev/nvme0n1 enthält ein Mitglied von Verbund „tank“, ",
    activity: [
      "die Wiederherstellung endete, bevor sie vollständig war",
      "Alarm „langsames Laufwerk“, Verbund tank (/dev/nvme2n1) (gemeldet über E-Mail): Laufwerk /dev/nvme2n1 bremst Verbund „tank“",
      "(die Wiederherstellung endete, bevor sie vollständig war, und geht nicht von selbst weiter)",
      "Abbruch der Prüfung von Verbund „tank“; abgelehnt: von Verbund „tank“ läuft keine Prüfung",
      "Prüfung von Verbund „pool“; abgelehnt: as it was",
    ],
  });
  await reads("ru-RU", {
    alarms: ["накопитель /dev/nvme3n1 массива «tank» исключён", "Массив выдержит ещё 1 отказ", "ему нужно 900 мкс, остальным 82 мкс"],
    reasons: ["«lake»: не хватает накопителей слотов 1, 4. Массив «lake» ждёт, затем запустится и в неполном составе"],
    refusal: "Сейчас это невозможно: /dev/nvme12n1 находится в общем резерве: сначала уберите его оттуда",
    waits: "«lake»: не хватает накопителей слотов 1, 4.",
    reader: "root (пользователь 0); полный доступ",
    client: "пользователь 64055, процесс 812",
    carries: "на /dev/nvme0n1 лежит член массива «tank», ",
    activity: ["восстановление прервалось до завершения и само не продолжится", "отклонено: проверка массива «tank» не выполняется"],
  });
});

test("every sentence of the server is worded in German and Russian, with values that it has", async () => {
  const { build } = await import("esbuild");
  const made = await build({ entryPoints: [new URL("../src/sentences.ts", import.meta.url).pathname], bundle: true, format: "esm", write: false });
  const { alarms, sentences, parts } = await import(`data:text/javascript;base64,${Buffer.from(made.outputFiles[0].text).toString("base64")}`);
  const { schemas } = JSON.parse(readFileSync(new URL("../../docs/openapi.json", import.meta.url), "utf8")).components;
  const declared = new Map(["PlanSentence", "HealthSentence", "HostSentence", "ServiceSentence", "OrderSentence", "ErrorSentence", "ResultSentence", "AlarmSentence", "WarningSentence"].flatMap((name) => schemas[name].oneOf.map(({ properties }) => [properties.code.const, Object.keys(properties.values.properties ?? {})])));
  assert.deepEqual(Object.keys(sentences).sort(), [...declared.keys()].sort());
  // What was ordered is in the title of the job. A command to be repeated, and a list in the server's English, would say no more.
  // The sentences of a text that is a value itself.
  const BESIDE = new Set(["cause", "causes", "ends"]);
  const UNSAID = new Set(["job-ordered action", "pool-spare-taken result", "member-keeps-name uuid", "member-keeps-name name", "members-keep-name uuid", "members-keep-name name", "no-such-array-on-drives there_are", "firmware-slot-unknown slots_here"]);
  for (const [code, texts] of Object.entries(sentences)) {
    for (const text of texts) {
      const said = new Set([...text.matchAll(/\{(\w+)/g)].map((match) => match[1]));
      assert.deepEqual([...said].filter((value) => !declared.get(code).includes(value)), [], `${code}: ${text}`);
      const unsaid = declared.get(code).filter((value) => !said.has(value) && !BESIDE.has(value) && !UNSAID.has(`${code} ${value}`));
      assert.deepEqual(unsaid, [], `${code}: ${text}`);
    }
  }
  for (const [name, texts] of [...Object.entries(sentences), ...Object.entries(parts), ...Object.entries(alarms)]) {
    assert.equal(texts.length, 2, name);
    const [de, ru] = texts;
    assert.ok(de !== "" && ru !== "" && (/^[{}\w: ]+$/.test(ru) || /[а-я]|SSD/.test(ru)), name);
    for (const forms of de.matchAll(/\{\w+\|([^}]*)\}/g)) assert.equal(forms[1].split("|").length, 2, name);
    for (const forms of ru.matchAll(/\{\w+\|([^}]*)\}/g)) assert.equal(forms[1].split("|").length, 3, name);
  }
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
