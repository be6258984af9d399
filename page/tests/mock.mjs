// A server with the daemon's contract and invented machines: what a real daemon on image files cannot show in a test, such as worn
// drives, twenty-four of them, or names that somebody chose to do harm. `node tests/mock.mjs SCENE [PORT]` serves one to look at.
import { createServer } from "node:http";
import { existsSync, readFileSync } from "node:fs";

const BUNDLE = new URL("../../crates/manage/page/", import.meta.url);
const TYPES = { html: "text/html; charset=utf-8", js: "text/javascript", css: "text/css", svg: "image/svg+xml" };
export const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/** How long an answer of the API takes at most, in milliseconds: a busy server answers late, and each request later than another. */
const SLOW_MS = Number(process.env.STRIA_SLOW_MS ?? 0);

const GIB = 2 ** 30;
const DAY = 86_400_000;
const SIZE = 3840 * 10 ** 9;

export function member(index, more = {}) {
  const latency = { median_us: 78 + index * 3, p99_us: 240 + index * 11, max_us: 4100, slow_count: 2 };
  return {
    slot: index, path: `/dev/nvme${index}n1`, role: "in sync", direct: true, direct_note: null, way: "interrupts", model: "SAMSUNG MZQL23T8HCLS-00A07", serial: `S64HNE0T5${String(10331 + index * 137)}`,
    size_bytes: SIZE, read_errors: 0, hedged_reads: 0, wrong_sectors: 0, repaired_sectors: 0, checksums: null, read_count: 90210 + index, write_count: 70110, read_bytes: 40 * GIB, written_bytes: 31 * GIB,
    no_room: false, file_deleted: false, needed: false, lost: false, failure: null, read_latency: latency, write_latency: { ...latency, median_us: 31 + index }, waiting_ms: null, ...more,
  };
}

export function view(name, level, members, more = {}) {
  const parity = { 0: 0, 5: 1, 6: 2, 1: members.length - 1, 10: 1 }[level] ?? 0;
  return {
    name, full_name: `box:${name}`, uuid: "3aaa0122:29827cfa:5331ad66:ca767371", level, layout: "left-symmetric", strip_bytes: 65536, strip_reason: null, size_bytes: (members.length - parity) * SIZE,
    health: "optimal", state: "active", silent_s: null, clean: false, read_only: false, unreplayed: null, trim_zeroes: true, paused: false, measuring: false, members, missing_slots: [], spans: [], sweep: null, resync_pending: false,
    mismatch_sectors: null, mismatch_repaired: false, losses_survived: parity, headline: "active", bitmap: { dirty_count: 3, bit_count: 57220, chunk_bytes: 67108864 },
    log: { append_count: 1, record_count: 1, append_bytes: 1, early_count: 81422, full_count: 0, replaying: false, replayed_count: 0, partial_parity: false }, in_flight: 4, events: 71, created_s: 1760000000,
    exports: [`nbd+unix:///${name}?socket=/run/stria/nbd.sock`], block_device: "/dev/ublkb0", attached: [], vhost_user: [],
    clients: [{ id: 1, peer: "process 812 of user 64055", tls: false, requests: 81000, errors: 0, read_bytes: 31 * GIB, written_bytes: 12 * GIB, in_flight: 3 }],
    lanes: [{ setup: "sleeps", cpu: null, polls: false, clients_on_lane: true, ring_calls: 1, ring_entries: 1, ring_fixed: 0, processor_us: 9 }, { setup: "sleeps", cpu: null, polls: false, clients_on_lane: true, ring_calls: 1, ring_entries: 1, ring_fixed: 0, processor_us: 4 }], speed: { min_bytes_per_s: null, max_bytes_per_s: null, latency: null }, ...more,
  };
}

export const entry = (view, more = {}) => ({ name: view.name, uuid: view.uuid, state: "served", text: "served", obstacle: null, drives: [], again_in_s: null, view, tasks: [], rates: null, slow: [], ...more });

const health = (more = {}) => ({
  source: "nvme", asleep: false, model: null, serial: null, firmware: "GDC5602Q", verdict: "good", findings: [], predicts_failure: false, critical_warning: 0, temperature_c: 41, temperature_warning_c: 80, temperature_critical_c: 83,
  wear_percent: 7, spare_percent: 100, spare_threshold_percent: 10, media_errors: 0, pending_sectors: null, reallocated_sectors: null, link_errors: 0, power_on_hours: 11240, power_cycles: 31, unsafe_shutdowns: 4, read_bytes: 91 * 1024 * GIB, written_bytes: 112 * 1024 * GIB, ...more,
});

export const drive = (path, more = {}) => ({
  path, by_id: null, pool: false, kind: "ssd", model: "SAMSUNG MZQL23T8HCLS-00A07", serial: "S64HNE0T599999", size_bytes: SIZE, carries: [], member: null, volumes: [], users: [], free: true, error: null, health: health(), health_read_at_s: Math.floor(Date.now() / 1000) - 90, health_error: null, seat: { slot: String(Number(path.match(/\d+/)?.[0] ?? 0) + 4), enclosure: "SuperMicro JBOF 1", link: null }, ...more,
});

const drives_of = (entries) =>
  entries.flatMap(({ view }) =>
    [view, ...(view?.spans ?? [])].flatMap((part) =>
      (part?.members ?? []).filter((member) => member.direct !== null).map((member) =>
        drive(member.path, { model: member.model, serial: member.serial, size_bytes: member.size_bytes, free: false, carries: ["member of a Linux md array"], member: { array: view.name, uuid: view.uuid, served: true, slot: member.slot, role: member.role } }),
      ),
    ),
  );

const event = (sequence, ago_ms, array, kind, text, more = {}) => ({ sequence, time_ms: Date.now() - ago_ms, array, kind, text, ...more });
const range = (n, from = 0) => Array.from({ length: n }, (_, index) => index + from);

function degraded() {
  const lost = member(3, { role: "failed", failure: "write of 128 KiB at sector 2097152 failed: I/O error", read_errors: 4, read_latency: null });
  const members = [...range(6).filter((index) => index !== 3).map((index) => member(index)), lost];
  return view("tank", "6", members, { health: "degraded", missing_slots: [3], losses_survived: 1, size_bytes: 4 * SIZE });
}

/** A matter as the server tells it. */
export const matter = (array, kind, urgency, more = {}) => ({ array, kind, urgency, what: `${array}: ${kind}`, means: "what it means", action: "what to do", avoid: "what not to do", since_ms: null, drives: [], remedies: [], reason: null, ...more });
const lost = (array, since_ms, more = {}) => matter(array, "degraded", "critical", { since_ms, remedies: [{ action: "add", array, drive: "", span: null }], ...more });

export const SCENES = {
  well: () => {
    const arrays = [
      entry(view("tank", "6", [...range(6).map((index) => member(index)), member(6, { slot: null, role: "spare" })], { size_bytes: 4 * SIZE })),
      entry(view("pool", "1", range(2, 8).map((index) => member(index, { slot: index - 8 })), { size_bytes: SIZE })),
    ];
    return { arrays, events: [event(1, 2 * DAY, "tank", "sweep_finished", "scrub of tank finished: no mismatch", { sweep: "scrub", mismatch_sectors: 0 }), event(2, DAY, "pool", "sweep_finished", "scrub of pool finished: no mismatch", { sweep: "scrub", mismatch_sectors: 0 })], drives: [...drives_of(arrays), drive("/dev/nvme12n1"), drive("/dev/sda", { model: "INTEL SSDSC2KB240G8", users: ["/boot", "/"], free: false, carries: ["partition table (GPT)"], size_bytes: 240e9, health: health({ wear_percent: 31, temperature_c: 29 }) })] };
  },
  empty: () => ({ arrays: [], events: [], drives: range(5).map((index) => drive(`/dev/nvme${index}n1`, { serial: `S64HNE0T5${10331 + index}` })) }),
  degraded: () => {
    const arrays = [entry(degraded()), entry(view("pool", "1", range(2, 8).map((index) => member(index, { slot: index - 8 })), { size_bytes: SIZE }))];
    return {
      arrays,
      matters: [lost("tank", Date.now() - 17 * 60_000, { drives: ["/dev/nvme3n1"], reason: "write of 128 KiB at sector 2097152 failed: I/O error" })],
      events: [event(1, 17 * 60_000, "tank", "member_failed", "/dev/nvme3n1 (slot 3) was dropped: write of 128 KiB at sector 2097152 failed: I/O error", { slot: 3 })],
      drives: [...drives_of(arrays), drive("/dev/nvme12n1"), drive("/dev/nvme13n1", { carries: ["ext4 file system \"backup\""], free: false, serial: "S64HNE0T588888" })],
    };
  },
  bare: () => {
    const scene = SCENES.degraded();
    Object.assign(scene.arrays[0].view, { level: "5", losses_survived: 0 });
    return scene;
  },
  /** A drive is lost, another slow, an array waits, a job has failed: all in the server's sentences. */
  told: () => {
    const scene = SCENES.degraded();
    const [{ view }] = scene.arrays;
    const since_s = Math.floor(Date.now() / 1000) - 17 * 60;
    const alarm = (event, component, text, code, values) => ({ event, array: "tank", component, text, since_s, said: { code, values: { array: "tank", ...values } } });
    const detail = "write of 128 KiB at sector 2097152 failed: I/O error";
    const then = { text: "DEGRADED: slot 3 missing", losses_survived: 1 };
    const slow = { path: "/dev/nvme2n1", own_us: 900, others_us: 82, tail: false };
    const findings = [{ verdict: "watch", sentence: "3 media errors", said: { code: "media-errors", values: { count: 3 } } }, { verdict: "watch", sentence: "a finding without a code", said: null }];
    scene.alarms = [
      alarm("Fail", "/dev/nvme3n1", `member /dev/nvme3n1 of array "tank" was dropped: ${detail}; the array now: ${then.text}`, "alarm-member-dropped", { drive: "/dev/nvme3n1", detail, then }),
      alarm("SlowMember", "/dev/nvme2n1", 'member /dev/nvme2n1 of array "tank" takes 900 µs, while the others take 82 µs; it slows all of them', "alarm-slow-member", { drive: "/dev/nvme2n1", slow }),
      alarm("DriveWatch", "/dev/nvme1n1", 'drive /dev/nvme1n1 of array "tank": 3 media errors', "alarm-drive-health", { drive: "/dev/nvme1n1", findings }),
      alarm("Fail", "0000:3a:00.0", "members on one link were lost", "alarm-of-tomorrow", {}),
    ];
    const waits = { code: "waits-then-starts", values: { lacks: [{ array: "lake", slots: [1, 4] }], array: "lake" } };
    const text = '"lake" lacks the drives of slots 1, 4: the array waits for them, then starts without them (`stria start lake` starts it now)';
    scene.arrays.push({ ...entry(SCENES.many().arrays[1].view), view: null, state: "waiting", obstacle: "drives", text, said: waits });
    const [, slow_alarm] = scene.alarms;
    scene.matters.push(
      matter("lake", "not_served", "critical", { reason: text, said: waits, remedies: [{ action: "start", array: "lake", force: false }] }),
      matter("tank", "SlowMember", "warning", { drives: ["/dev/nvme2n1"], reason: slow_alarm.text, said: slow_alarm.said }),
    );
    const ends = [{ code: "rebuild-gave-up", values: {} }];
    const title = { code: "add-drive", values: { drive: "/dev/nvme12n1", array: "tank" } };
    const outcome = "the rebuild has ended before it was complete, and does not go on by itself; `stria explain` says what to do";
    scene.jobs = [{ id: 7, action: { action: "add", array: "tank", drive: "/dev/nvme12n1", span: null }, title: "add /dev/nvme12n1", said: title, by: "root (user 0)", state: "failed", text: outcome, ends, task: null, started_ms: Date.now() - 900_000, ended_ms: Date.now() - 60_000 }];
    const said = (sequence, kind, text, code, values) => event(sequence, 60_000 - sequence, "tank", kind, text, { said: { code, values } });
    scene.events.push(
      said(2, "alarm", `SlowMember on array tank (/dev/nvme2n1) (by mail): ${slow_alarm.text}`, "alarm-raised", { alarm: "SlowMember", array: "tank", component: "/dev/nvme2n1", channels: ["mail"], detail: slow_alarm.text, cause: slow_alarm.said }),
      said(3, "job", `job 7 of root (user 0): add /dev/nvme12n1 failed: ${outcome}`, "job-failed", { job: 7, by: "root (user 0)", title, outcome, ends }),
      said(4, "ordered", 'root (user 0) ordered: scrub of array "tank"; refused: no scrub runs on "tank"', "order-refused", { by: "root (user 0)", order: { code: "order-scrub-end", values: { of: "tank" } }, reason: 'no scrub runs on "tank"', cause: { code: "no-scrub-runs", values: { array: "tank" } } }),
      // As an earlier version stored it.
      said(5, "ordered", 'root (user 0) ordered: scrub of array "pool"; refused: so', "order-refused", { by: "root (user 0)", order: { code: "order-scrub", values: { of: "pool" } }, reason: "as it was", cause: null }),
    );
    scene.refuse = (method, path) => (method === "POST" && path === "/api/v1/plans" ? { status: 409, kind: "refused", message: "/dev/nvme12n1 is in the pool of spares: take it out of the pool first", said: { code: "drive-in-pool", values: { drive: "/dev/nvme12n1" } } } : null);
    view.losses_survived = 1;
    return scene;
  },
  /** RAID 6 has lost two drives. */
  two: () => {
    const scene = SCENES.degraded();
    const { view } = scene.arrays[0];
    Object.assign(view.members[4], { role: "failed", failure: "the drive is gone" });
    Object.assign(view, { missing_slots: [3, 5], losses_survived: 0 });
    const reason = "/dev/nvme3n1: write of 128 KiB at sector 2097152 failed: I/O error; /dev/nvme5n1: the drive is gone";
    scene.matters = [lost("tank", Date.now() - 17 * 60_000, { drives: ["/dev/nvme3n1", "/dev/nvme5n1"], reason })];
    return scene;
  },
  rebuilding: () => {
    const scene = SCENES.degraded();
    const { view } = scene.arrays[0];
    view.members.splice(3, 0, member(3, { path: "/dev/nvme12n1", serial: "S64HNE0T599999", role: "rebuilding" }));
    view.missing_slots = [];
    Object.assign(scene.matters[0], { kind: "rebuilding", urgency: "warning", drives: ["/dev/nvme3n1", "/dev/nvme12n1"], remedies: [] });
    view.sweep = { kind: "rebuild", done_bytes: SIZE * 0.41, total_bytes: SIZE, bytes_per_s: 512 << 20, eta_s: 4210, held_bytes_per_s: null, mismatch_sectors: 0 };
    scene.arrays[0].tasks = [{ array: "tank", kind: "rebuild", done_bytes: SIZE * 0.41, total_bytes: SIZE, bytes_per_s: 512 << 20, left_s: 4210, held_bytes_per_s: null, mismatch_sectors: 0 }];
    return scene;
  },
  /** RAID 5 has lost two drives: the second keeps its slot. */
  failed: () => {
    const scene = SCENES.degraded();
    const { view } = scene.arrays[0];
    Object.assign(view, { level: "5", health: "failed", losses_survived: 0 });
    Object.assign(view.members[1], { lost: true, failure: "the drive is gone" });
    scene.matters = [matter("tank", "failed", "critical", { drives: ["/dev/nvme1n1", "/dev/nvme3n1"], reason: "/dev/nvme1n1: the drive is gone; /dev/nvme3n1: I/O error" })];
    return scene;
  },
  silent: () => {
    const scene = SCENES.degraded();
    scene.arrays[0].view.silent_s = 600;
    scene.matters = [matter("tank", "silent", "critical", { since_ms: Date.now() - 600_000, reason: "before that: DEGRADED: slot 3 missing" })];
    return scene;
  },
  /** The rebuild waits, and a spare is there. */
  paused: () => {
    const scene = SCENES.degraded();
    Object.assign(scene.arrays[0].view, { paused: true });
    scene.arrays[0].view.members.push(member(6, { path: "/dev/nvme12n1", slot: null, role: "spare" }));
    scene.matters = [matter("tank", "paused", "critical", { since_ms: Date.now() - 2 * 3_600_000, drives: ["/dev/nvme3n1"], remedies: [{ action: "resume", array: "tank" }] })];
    return scene;
  },
  /** The write log could not be replayed after a crash. */
  read_only: () => {
    const scene = SCENES.well();
    const reason = "/dev/nvme2n1: reading the write log failed: I/O error";
    Object.assign(scene.arrays[0].view, { read_only: true, unreplayed: reason });
    scene.matters = [matter("tank", "read_only", "critical", { since_ms: Date.now() - 6 * 60_000, reason })];
    return scene;
  },
  /** One member hangs; the array can do without it, and has a spare. */
  member_silent: () => {
    const scene = SCENES.well();
    scene.arrays[0].view.members[2].waiting_ms = 180_000;
    scene.matters = [matter("tank", "member_silent", "critical", { since_ms: Date.now() - 180_000, drives: ["/dev/nvme2n1"], remedies: [{ action: "fail", array: "tank", drive: "/dev/nvme2n1" }] })];
    return scene;
  },
  unseen: () => {
    const scene = SCENES.silent();
    Object.assign(scene.arrays[0].view, { level: "", health: "failed", members: [], missing_slots: [], size_bytes: 0, losses_survived: 0 });
    return scene;
  },
  many: () => {
    const arrays = range(4).map((index) => {
      const members = range(6).map((slot) => member(slot, { path: `/dev/nvme${index * 6 + slot}n1`, serial: `S64HNE0T5${String(10331 + (index * 6 + slot) * 137)}` }));
      return entry(view(["tank", "lake", "pond", "well"][index], index === 3 ? "10" : "6", members, { size_bytes: 4 * SIZE }));
    });
    arrays[1].view.members[2].role = "failed";
    Object.assign(arrays[1].view, { health: "degraded", missing_slots: [2], losses_survived: 1 });
    arrays[2].slow = [{ path: "/dev/nvme14n1", own_us: 900, others_us: 82, tail: false }];
    arrays[2].view.members[2].read_latency.median_us = 900;
    const drives = drives_of(arrays);
    Object.assign(drives[20].health, { verdict: "replace", wear_percent: 103, findings: [{ verdict: "replace", sentence: "103 % of the rated endurance is used: replace the drive while it works." }] });
    const replace = (array, old) => ({ drives: [old], remedies: [{ action: "replace", array, old, new: "" }] });
    const matters = [
      lost("lake", Date.now() - 3 * DAY, { drives: ["/dev/nvme8n1"] }),
      matter("well", "DriveReplace", "critical", { ...replace("well", "/dev/nvme20n1"), reason: drives[20].health.findings[0].sentence }),
      matter("pond", "SlowMember", "warning", replace("pond", "/dev/nvme14n1")),
    ];
    return { arrays, matters, events: [event(1, 3 * DAY, "lake", "member_failed", "slot 2 failed")], drives };
  },
  shared: () => {
    const scene = SCENES.well();
    const path = "/dev/disk/by-id/nvme-SAMSUNG_MZQL23T8HCLS-00A07_S64HNE0T599999";
    scene.drives.find((drive) => drive.path === "/dev/nvme12n1").pool = true;
    scene.spares = { kind: "same", enclosure: "prefer", drives: [{ path, free: true, state: "free", said: { code: "pool-drive-free", values: {} }, size_bytes: SIZE, enclosure: "SuperMicro JBOF 1" }, { path: "/dev/sdz", free: false, state: "taken by \"pool\"", said: { code: "pool-drive-taken", values: { array: "pool" } }, size_bytes: null, enclosure: null }], offers: [{ array: "tank", span: null, drives: [path], why_none: null }, { array: "pool", span: null, drives: [], why_none: "/dev/sdz is another kind of drive", said: [{ code: "other-kind", values: { drive: "/dev/sdz" } }] }] };
    const array = (name, more) => ({ name, host: "elsewhere", from_here: false, uuid: `11aa22bb:33cc44dd:55ee66ff:${name.padEnd(8, "0")}`, level: "5", starts: true, clash: false, state: "can be imported", drives: ["/dev/sdd", "/dev/sde", "/dev/sdf"], ...more });
    scene.foreign = { arrays: [array("archive"), array("tank", { clash: true, state: "can be imported, under another name (--name): there is another array of this name" }), array("broken", { host: null, starts: false, state: "2 of 3 members are missing, RAID 5 survives 1" })], firmware: [{ path: "/dev/sdg", reason: "it carries Intel RAID (IMSM) member (1.3.00)", reason_said: { code: "carries-firmware-raid", values: { contents: "Intel RAID (IMSM) member (1.3.00)" } }, remedy: "its metadata belong to firmware: `stria serve --read-only` reads IMSM and DDF volumes, and `mdadm --assemble` runs them", remedy_said: { code: "firmware-raid-remedy", values: {} } }] };
    return scene;
  },
  /** Two copies differ, and nothing tells which is right. */
  mismatch: () => {
    const scene = SCENES.well();
    const { view } = scene.arrays[1];
    const undecided = { drives: [view.members[1].path, view.members[0].path], sectors: 8, first_sector: 2097152, last_sector: 2097159 };
    Object.assign(view, { mismatch_sectors: 8, undecided, last_scrub: { ended_s: Math.floor(Date.now() / 1000) - 60, mismatch_sectors: 8, unchecked_sectors: 0, repaired: false } });
    scene.matters = [matter("pool", "mismatch", "warning", { since_ms: Date.now() - 60_000, drives: undecided.drives, remedies: [{ action: "scrub", array: "pool", repair: true, from_bytes: 0 }] })];
    return scene;
  },
  /** RAID 6 of image files has lost one. */
  images: () => {
    const scene = SCENES.degraded();
    const [entry] = scene.arrays;
    for (const one of entry.view.members) Object.assign(one, { path: one.path.replace("/dev/nvme", "/srv/images/d").replace("n1", ".img"), serial: null, model: null });
    scene.matters[0].drives = ["/srv/images/d3.img"];
    const kind = { kind: "file", serial: null, model: null, seat: null, health: null };
    scene.drives = [...drives_of([entry]).map((one) => ({ ...one, ...kind })), drive("/srv/images/d9.img", kind)];
    scene.arrays = [entry];
    return scene;
  },
  stopped: () => ({ arrays: [{ ...entry(view("tank", "5", [member(0)])), view: null, state: "stopped", text: "stopped; `stria start tank` starts it", drives: ["/dev/nvme0n1"] }], events: [], drives: [] }),
  hostile: () => {
    const nasty = `<img src=x onerror=alert(1)>"'&‮tank`;
    const long = "an-array-with-the-longest-name-31";
    const arrays = [
      entry(view(nasty, "5", range(3).map((index) => member(index, { path: `/srv/<b>${"x".repeat(90)}</b>/${index}.img`, serial: null, model: null, failure: index === 1 ? "<script>alert(2)</script>" : null, role: index === 1 ? "failed" : "in sync" })), { health: "degraded", missing_slots: [1], losses_survived: 0 })),
      { ...entry(view(long, "1", [member(8)])), view: null, state: "waiting", text: `lacks the drive of slot 1 <a href="javascript:alert(3)">x</a>` },
    ];
    const matters = [
      lost(nasty, Date.now() - 1000, { drives: [arrays[0].view.members[1].path], reason: arrays[0].view.members[1].failure }),
      matter(long, "not_served", "critical", { reason: arrays[1].text, remedies: [{ action: "start", array: long, force: false }] }),
    ];
    const model = `<b>${"LONGMODELWITHOUTASPACE".repeat(4)}\u202e\u034f\u2800\u{e0041}\ue000</b>`;
    const seat = { slot: "<i>7\u202e</i>", enclosure: `<u>${"Shelf".repeat(20)}</u>`, link: null };
    const odd = { model, serial: `\u2067${"S".repeat(60)}`, seat };
    const finding = { verdict: "replace", sentence: `<script>alert(5)</script>${"x".repeat(120)}` };
    const drives = [
      drive("/dev/sd<i>z", { carries: ["ext4 \"<u>data</u>\""], free: false, ...odd, health: health({ verdict: "replace", findings: [finding], firmware: "<i>1</i>" }) }),
      ...arrays[0].view.members.map((one) => drive(one.path, { free: false, ...odd, member: { array: nasty, uuid: arrays[0].uuid, served: true, slot: one.slot, role: one.role } })),
      drive(`/dev/disk/by-id/${"y".repeat(100)}<img src=x>`, { ...odd, size_bytes: SIZE }),
    ];
    const alarms = [{ event: "DriveReplace", array: nasty, component: drives[0].path, text: `<img src=x onerror=alert(6)>${"z".repeat(150)}`, since_s: 0 }];
    const spares = { kind: "same", enclosure: "prefer", drives: [{ path: drives[0].path, free: false, state: "<b>taken</b>", size_bytes: null, enclosure: seat.enclosure }], offers: [{ array: nasty, span: null, drives: [], why_none: model }] };
    const foreign = { arrays: [{ name: nasty, host: "<b>elsewhere</b>", from_here: false, uuid: "11aa22bb:33cc44dd:55ee66ff:77008899", level: "5", starts: true, clash: false, state: model, drives: [drives[0].path, drives[4].path] }], firmware: [{ path: drives[0].path, reason: model, remedy: "<u>none</u>" }] };
    return { arrays, matters, alarms, spares, foreign, drives, told_by: ["<b>pager</b>"], events: [event(1, 1000, nasty, "member_failed", "<svg onload=alert(4)>")] };
  },
};

/** Serves a scene, which tests may change by `change`. */
export async function mock(scene_name, port = 0) {
  let scene = SCENES[scene_name]();
  const jobs = [...(scene.jobs ?? [])];
  const asked = [];
  const streams = new Set();
  const started = Date.now();
  /** The server's clock may be another than the reader's. */
  const clock = () => Date.now() + (scene.ahead_ms ?? 0);
  const state = () => {
    const arrays = scene.arrays.map((one) => (one.view ? { ...one, rates: rates(one) } : one));
    const summary = { urgency: "well", sentence: "", matters: scene.matters ?? [], well: [], told_by: scene.told_by ?? ["mail"] };
    return { boot: "1", time_ms: clock(), summary, arrays, jobs, alarms: scene.alarms ?? [] };
  };
  const rates = ({ view }) => {
    const swing = 1 + 0.3 * Math.sin((Date.now() - started) / 4000);
    const members = [view, ...view.spans].flatMap((part) => part.members).filter((one) => one.direct !== null && one.role !== "failed").map((one, index) => ({ path: one.path, reads_per_s: 9000 * swing + index * 90, writes_per_s: 4100, read_bytes_per_s: (270 + index * 7) * swing * 2 ** 20, written_bytes_per_s: 140 * swing * 2 ** 20 }));
    return { over_ms: 1000, total: { peer: "", requests_per_s: 21000 * swing, read_bytes_per_s: 1400 * swing * 2 ** 20, written_bytes_per_s: 390 * swing * 2 ** 20, in_flight: 37 }, clients: [], members, lanes: scene.lanes ?? [0.34 * swing, 0.21] };
  };
  // What the planner was asked for before.
  const forecasts = new Set();
  const answers = {
    "GET /api/v1": () => ({ version: "0.9.0", api: 1, machine: "box.example", boot: "1", time_ms: Date.now(), zone: scene.zone ?? "Europe/Berlin", user: scene.user ?? USER }),
    "GET /api/v1/session": () => scene.user ?? USER,
    "GET /api/v1/state": state,
    "GET /api/v1/drives": () => scene.drives,
    "GET /api/v1/spares": () => scene.spares ?? { kind: "same", enclosure: "prefer", drives: [], offers: scene.arrays.map(({ name }) => ({ array: name, span: null, drives: [], why_none: "the pool is empty" })) },
    "GET /api/v1/foreign": () => scene.foreign ?? { arrays: [], firmware: [] },
    "GET /api/v1/events": (_, query) => ({ events: scene.events.filter(({ text }) => text.includes(query.get("text") ?? "")), more: false, unstored: scene.unstored ?? 0 }),
    "GET /api/v1/audit": () => ({ events: [event(9, 60_000, "tank", "ordered", "root (user 0) ordered add: done")], more: false, unstored: 0 }),
    "PUT /api/v1/config": (body) => ((scene.config = body), { message: "the configuration is read anew" }),
    "GET /api/v1/config": () => scene.config ?? ({ text: "[daemon]\ndegraded-after = \"30s\"\n", tag: "1" }),
    "POST /api/v1/config/check": () => ({ good: !scene.faults, text: "the configuration is good", faults: scene.faults ?? [] }),
    "POST /api/v1/alarms/acknowledge": ({ event: name, array, component, undo, note }) => {
      const known = undo ? undefined : { by: "root (user 0)", at_s: Math.floor(clock() / 1000), note };
      scene.alarms = scene.alarms.map((one) => (one.event === name && one.array === array && (one.component ?? null) === component ? { ...one, acknowledged: known } : one));
      scene.matters = scene.matters?.map((one) => (one.kind === name && one.array === array ? { ...one, acknowledged: known } : one));
      return scene.alarms.find((one) => one.acknowledged) ?? scene.alarms[0];
    },
    "POST /api/v1/alarms/test": () => [{ channel: "mail to storage@example.org", error: null }, { channel: "webhook", error: "connection refused" }],
    "GET /api/v1/alarms/settings": () => scene.channels ?? { mail: scene.told_by?.length === 0 ? [] : ["storage@example.org"], webhook: "", tag: "as read" },
    "PUT /api/v1/alarms/settings": (body) => ((scene.channels = body), { message: "the configuration is read anew" }),
    "GET /api/v1/routine": () => scene.routine_list ?? scene.arrays.map(({ name }) => ({ what: "scrub", of: name, schedule: "Sun *-*-1..7 01:00", running: false, interrupted: false, last_s: Math.floor(Date.now() / 1000) - 9 * 86400, next_s: Math.floor(Date.now() / 1000) + 12 * 86400, outcome: "no mismatch", said: { code: "scrub-is-clean", values: {} } })),
    "GET /api/v1/routine/settings": () => scene.routine ?? { scrub: "Sun *-*-1..7 01:00", scrubs: { [scene.arrays[0]?.name ?? "tank"]: "Sat *-*-* 02:00" }, self_test: "weekly", long_self_test: "never", hours: "22:00-06:00", tag: "as read" },
    "PUT /api/v1/routine/settings": (body) => ((scene.routine = body), { message: "the configuration is read anew" }),
    "GET /api/v1/reports": () => ({ folder: "/var/lib/stria/reports", files: [{ name: "lab-tank.html", changed_ms: Date.now() - DAY }, { name: "plan.html", changed_ms: Date.now() - 2 * DAY }] }),
    "POST /api/v1/forecast": ({ like }) => forecast(like, like && !forecasts.has(like) && forecasts.add(like)),
    "POST /api/v1/actions": (body) => job(body),
    "POST /api/v1/plans": (action) => ({ token: JSON.stringify(action), expires_ms: clock() + 600_000, plan: plan(action), takes: takes(action) }),
    "POST /api/v1/jobs": ({ token }) => job(JSON.parse(token)),
  };
  const job = (action) => {
    const made = { id: jobs.length + 1, action, title: `${action.action} ${action.array ?? action.name}`, by: "root", state: "done", text: "done", task: null, started_ms: Date.now() - 2000, ended_ms: Date.now(), ...scene.job };
    jobs.push(made);
    return made;
  };
  const server = createServer((request, response) => {
    // Below /proxy/ the same, as a reverse proxy shows it.
    const path = new URL(request.url, "http://x").pathname.replace(/^\/proxy(?=\/)/, "");
    const chunks = [];
    request.on("data", (chunk) => chunks.push(chunk));
    request.on("end", async () => {
      if (SLOW_MS > 0 && path.startsWith("/api/")) await new Promise((resolve) => setTimeout(resolve, Math.random() * SLOW_MS));
      response.setHeader("content-security-policy", POLICY);
      // A scene with `refuse` says no, by request.
      const no = scene.refuse?.(request.method, path, request.headers);
      if (no) await no.wait;
      if (no) return response.writeHead(no.status, { "content-type": "application/json" }).end(JSON.stringify({ error: { kind: no.kind ?? "forbidden", message: no.message, said: no.said } }));
      // A scene with `accounts` knows nobody until its account logs in.
      if (scene.accounts && path.startsWith("/api/")) {
        const answer = (status, body) => response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
        if (path === "/api/v1/login") return answer(200, { accounts: true });
        for (const stream of streams) stream.end();
        if (path === "/api/v1/session" && request.method === "POST") {
          const proof = JSON.parse(Buffer.concat(chunks).toString());
          asked.push({ path, body: proof });
          if (!proof.user || scene.accounts[proof.user] !== proof.password) return answer(401, { error: { kind: "unauthorized", message: "the login was refused" } });
          scene = { ...scene, accounts: null };
          return answer(200, { ...USER, via: "session", csrf: "1" });
        }
        return answer(401, { error: { kind: "unauthorized", message: "begin a session" } });
      }
      if (path === "/api/v1/stream") {
        response.writeHead(200, { "content-type": "text/event-stream" });
        let is_mute = false;
        const send = () => is_mute || response.write(`event: state\ndata: ${JSON.stringify(state())}\n\n`);
        send();
        const timer = setInterval(send, 1000);
        const stream = { send, mute: () => (is_mute = true), end: () => (clearInterval(timer), response.destroy()) };
        streams.add(stream);
        response.on("close", () => (clearInterval(timer), streams.delete(stream)));
        return;
      }
      const measured = /^\/api\/v1\/arrays\/[^/]+\/(limits|price)$/.exec(path)?.[1];
      const cancelled = /^\/api\/v1\/jobs\/(\d+)$/.exec(path)?.[1];
      const cancel = () => (Object.assign(jobs[cancelled - 1], { state: "cancelled", text: "it was cancelled", ended_ms: Date.now() }), { message: "it is being cancelled" });
      const answer = cancelled && request.method === "DELETE" ? cancel : measured ? () => (measured === "price" ? PRICE : request.method === "POST" ? (scene.limits = limits()) : { limits: scene.limits ?? null }) : answers[`${request.method} ${path}`];
      if (answer) {
        const body = chunks.length > 0 ? JSON.parse(Buffer.concat(chunks).toString()) : null;
        if (request.method !== "GET") asked.push({ path, body });
        response.writeHead(200, { "content-type": "application/json" });
        response.end(JSON.stringify(answer(body, new URL(request.url, "http://localhost").searchParams)));
        return;
      }
      const file = new URL(path === "/" ? "index.html" : path.slice(1), BUNDLE);
      if (request.method !== "GET" || !existsSync(file)) {
        response.writeHead(404, { "content-type": "application/json" });
        response.end(JSON.stringify({ error: { kind: "not_found", message: "there is nothing at this path" } }));
        return;
      }
      response.writeHead(200, { "content-type": TYPES[file.pathname.split(".").pop()] ?? "text/plain" });
      response.end(readFileSync(file));
    });
  });
  await new Promise((resolve) => server.listen(port, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}/`,
    asked,
    stream_count: () => streams.size,
    change(next) {
      scene = next;
      for (const stream of streams) stream.send();
    },
    /** Silences the open streams without closing them, as a router does that has forgotten the connection. */
    mute() {
      for (const stream of streams) stream.mute();
    },
    async close() {
      for (const stream of streams) stream.end();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const limits = () => ({ at_ms: Date.now() - 60_000, together_bytes_per_s: 5.1e9, members: range(8).map((index) => ({ path: `/dev/nvme${index}n1`, reads_per_s: 48000 - (index === 2 ? 21000 : 0), read_bytes_per_s: 1.6e9 - index * 2e7, read_us: 74 + index, error: null })) });

const PRICE = { at_ms: Date.now(), kind: "rebuild", sweep_bytes_per_s: 512 << 20, running: { requests_per_s: 17800, bytes_per_s: 1.3e9, mean_us: 410 }, held: { requests_per_s: 21100, bytes_per_s: 1.6e9, mean_us: 330 }, noise: 0.03 };

/** What the planner says of five P4510, in round figures; `later`: it is still at work. */
function forecast(like, later) {
  const known = [{ key: "p4510", name: "Intel SSD DC P4510 (64-layer TLC), taken as 4 TB" }, { key: "s3500", name: "Intel SSD DC S3500 480 GB (20 nm MLC)" }];
  if (!like) return { by_plan: false, later: false, text: "the planner's catalogue has no model of these drives", like: null, known, levels: [] };
  if (later) return { by_plan: false, later: true, text: "the planner is at work: ask again", like: null, known, levels: [] };
  const level = (level, requests_per_s, mean_us, degraded_share, rebuild_s, wear, loss_per_year) => ({ level, requests_per_s, bytes_per_s: requests_per_s * 4096, mean_us, read_p99_us: mean_us * 5, degraded_share, rebuild_s, wear, loss_per_year, strip_bytes: 65536 });
  return { by_plan: true, later: false, text: known[0].name, like, known, levels: [level("0", 580518, 112, null, null, 1, 0.031), level("10", 518108, 123, 0.9, 1677, 2.1, 9.7e-6), level("5", 275847, 231, 0.85, 1692, 3.9, 4.9e-5), level("6", 218138, 293, 0.88, 1692, 6.6, 2.4e-9)] };
}

const USER = { name: "root (user 0)", role: "admin", via: "unix" };

const takes = ({ action }) => (action === "add" || action === "replace" ? { seconds: 4800, bytes: SIZE, bytes_per_s: 800e6, basis: "typical" } : null);

function plan(action) {
  const drive = action.drive ?? action.new ?? "/dev/nvme12n1";
  const carried = action.action === "destroy" ? [{ code: "loses-content", values: { drive: "/dev/nvme0n1", carries: ['a member of array "tank"', 'ext4 "backup"'] } }] : [];
  const loses = action.action === "destroy" || action.action === "create" ? ["everything on the drives that are named", ...carried.map(() => "a drive has something on it")] : [];
  // A code that the page does not know: it shows the server's words.
  const unknown = { code: "of-tomorrow", values: {} };
  const title = action.action === "add" ? { code: "add-drive", values: { drive, array: action.array } } : unknown;
  return {
    action, title: `${drive} takes slot 3 of ${action.array ?? action.name} and is filled from the other drives.`,
    writes: action.action === "start" ? [] : [{ drive, identity: "SAMSUNG MZQL23T8HCLS-00A07, S64HNE0T599999", what: "superblock, bitmap, then the data of slot 3", said: { what: { code: "writes-new-member", values: {} }, loses: null }, extents: [{ start_bytes: 4096, length_bytes: 4096 }, { start_bytes: 134217728, length_bytes: SIZE - 134217728 }], loses: loses[0] ?? null }],
    writes_nothing: action.action === "locate", loses, warnings: ["the rebuild reads every other member"], said: { title, loses: [...loses.slice(carried.length).map(() => unknown), ...carried], warnings: [{ code: "pool-may-fill", values: {} }] }, forecast: null, role: "operate", confirm: loses.length > 0 || (action.action === "stop" && action.force) ? (action.array ?? action.name) : null,
  };
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const server = await mock(process.argv[2] ?? "degraded", Number(process.argv[3] ?? 8099));
  console.log(server.url);
}
