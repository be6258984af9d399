// The state of the machine as the server last reported it, and since when it has not.
//
// One event stream brings all of it: the state when something changed, and a beat each second in which nothing did. What is not the
// present is never shown as such: `silent_since` says since when, and everything that acts is closed meanwhile.
import { batch, computed, effect, signal } from "@preact/signals";
import { now, zone } from "./format.ts";
import { drops_of, still_inside } from "./dropped.ts";
import * as server from "./server.ts";
import type { About, Action, ArrayEntry, ArrayView, Drive, Event, Job, State } from "./types.ts";
import type { Source } from "./way.ts";

/** The stream beats each second. A state that is older than this is no longer the present. */
const STALE_MS = 4000;
const TRY_AGAIN_MS = 2000;
const EVENTS_MAX = 500;
const DROP = "member_failed";
const SAMPLES_MAX = 180;
/** The server asks drives for their health so often. */
const DRIVES_EVERY_MS = 300_000;
/** While a drive is to be put in or pulled, a person stands at the server. */
const AWAITED_EVERY_MS = 4000;

export const state = signal<State | null>(null);
export const about = signal<About | null>(null);
/** The server's time zone, in which schedules are. */
export const server_zone = () => (about.value ? zone(about.value.zone) : "");
export const drives = signal<Drive[] | null>(null);
/** The fault of the last look at the drives; null: it succeeded. */
export const drives_fault = signal<server.Refusal | null>(null);
/** The latest events, the newest last. */
export const events = signal<Event[]>([]);
/** True once they were read: before that, what is not among them may still have happened. */
export const events_known = signal(false);
const drop_events = signal<Event[]>([]);
/** Drives that arrays have dropped, as far back as the server reports. */
export const drops = computed(() => drops_of(drop_events.value));
/** Dropped drives that somebody still has to pull. */
export const inside = computed(() => still_inside(drops.value, drives.value ?? [], arrays.value));
/** True: the server wants to know who asks. */
export const login_needed = signal(false);
/** How often the reader has logged in again. */
export const logins = signal(0);
/** The server answers, and will not serve this reader or this address. */
export const refusal = signal<server.Refusal | null>(null);
/** A message may be under way so long. */
const WAY_MS = 2000;
/** By how much the server's clock is ahead of this browser's. */
export const ahead_ms = signal(0);
/** A time of the server's clock by this browser's. */
export const here = (server_ms: number) => server_ms - ahead_ms.value;

const started_at = Date.now();
/** When the server last said something; null: not yet. */
export const heard_at = signal<number | null>(null);
/** Since when there is no answer; null: what is shown is the present. */
export const silent_since = computed(() => {
  const last = heard_at.value ?? started_at;
  return now.value - last > STALE_MS ? last : null;
});

/** A time that the server reported as so far ahead, by this browser's clock: while there is no answer it does not move on. */
export const in_s = (left_s: number) => (heard_at.value ?? now.value) + left_s * 1000;

export const arrays = computed(() => state.value?.arrays ?? []);
export const jobs = computed(() => state.value?.jobs ?? []);
export const array_of = (name: string): ArrayEntry | undefined => arrays.value.find((array) => array.name === name);
export const job_of = (id: number): Job | undefined => jobs.value.find((job) => job.id === id);

/** One second of an array or member. */
export type Sample = { at: number; read: number; written: number; requests: number; under_way: number };
const samples = new Map<string, Sample[]>();
/** The highest rates of writes that were seen since the page was opened. */
const peaks = new Map<string, number>();
const sampled = signal(0);

export function history(key: string): Sample[] {
  void sampled.value;
  return samples.get(key) ?? [];
}

export function peak(key: string): number {
  void sampled.value;
  return peaks.get(key) ?? 0;
}

export const member_key = (array: string, path: string) => `${array}\n${path}`;

function sample(array: ArrayEntry, at: number) {
  const { rates } = array;
  if (!rates) return;
  const add = (key: string, read: number, written: number, requests: number, under_way = 0) => {
    const list = samples.get(key) ?? [];
    list.push({ at, read, written, requests, under_way });
    if (list.length > SAMPLES_MAX) list.shift();
    samples.set(key, list);
    peaks.set(key, Math.max(peaks.get(key) ?? 0, written));
  };
  add(array.name, rates.total.read_bytes_per_s, rates.total.written_bytes_per_s, rates.total.requests_per_s, rates.total.in_flight);
  for (const member of rates.members) {
    add(member_key(array.name, member.path), member.read_bytes_per_s, member.written_bytes_per_s, member.reads_per_s + member.writes_per_s);
  }
}

function heard(time_ms: number) {
  now.value = Date.now();
  heard_at.value = now.value;
  const ahead = time_ms - now.value;
  if (Math.abs(ahead - ahead_ms.value) > WAY_MS) ahead_ms.value = Math.abs(ahead) > WAY_MS ? ahead : 0;
}

/**
 * What is known of drives changes when members or alarms do, and when a job ends: then the machine's drives are looked at again. Their
 * health, which changes by itself, is looked at now and then. A drive that somebody puts in or pulls changes no state.
 */
let shape = "";
/** The shape at the last look; null: it had no answer. */
let looked: string | null = null;
let looked_at = 0;
/** A look that takes so long waits for a drive that hangs, and costs the server a thread: it is not hurried. */
const SLOW_MS = 3000;
let took_ms = 0;
let is_looking = false;
/** Windows that wait for the reader to put in a drive. */
export const awaiting = signal(0);

/** True while a drive is to be put in or pulled: then the list is read every few seconds. */
function is_awaited(): boolean {
  if (document.hidden) return false;
  const needs = (action: Action) => (action.action === "add" && action.drive === "") || (action.action === "replace" && action.new === "");
  return awaiting.value > 0 || inside.value.length > 0 || (state.value?.summary.matters.some((matter) => matter.remedies.some(needs)) ?? false);
}

function look_if_due() {
  const is_current = looked === null || looked === shape;
  const every = looked === null ? TRY_AGAIN_MS : is_awaited() && took_ms < SLOW_MS ? AWAITED_EVERY_MS : DRIVES_EVERY_MS;
  if (is_looking || (is_current && Date.now() < looked_at + every)) return;
  const wanted = shape;
  const began = Date.now();
  is_looking = true;
  void look_at_drives(false, true).then((is_answered) => {
    is_looking = false;
    looked = is_answered ? wanted : null;
    looked_at = Date.now();
    took_ms = looked_at - began;
  });
}

function take(next: State) {
  batch(() => {
    const restarted = state.value && state.value.boot !== next.boot;
    if (restarted) samples.clear();
    state.value = next;
    heard(next.time_ms);
    for (const array of next.arrays) sample(array, now.value);
    sampled.value += 1;
  });
  const members = (view: ArrayView): unknown[] => [...view.members.map((member) => [member.path, member.role, member.failure]), ...view.spans.map(members)];
  const arrays = next.arrays.map((array) => [array.name, array.state, array.view && members(array.view)]);
  const alarms = next.alarms.map((alarm) => [alarm.event, alarm.array, alarm.component]);
  shape = JSON.stringify([arrays, alarms, next.jobs.filter((job) => job.ended_ms !== null).map((job) => job.id)]);
  look_if_due();
}

let questions = 0;
let answered = 0;

/**
 * Returns false if there was no answer. An answer that a later question has overtaken is left out. `is_unattended`: the page asks
 * without the reader.
 */
export async function look_at_drives(refresh = false, is_unattended = false): Promise<boolean> {
  const question = ++questions;
  try {
    const found = await server.drives(refresh, is_unattended);
    if (question > answered) {
      answered = question;
      drives.value = found;
      drives_fault.value = null;
    }
    return true;
  } catch (reason) {
    // The earlier list stays on the page. Every screen that offers its drives shows the fault beside it.
    if (question > answered && reason instanceof server.Refusal) drives_fault.value = reason;
    return false;
  }
}

async function load_events() {
  try {
    const latest = (await server.events({ limit: 200 }, true)).events;
    batch(() => {
      events.value = latest;
      events_known.value = true;
    });
    drop_events.value = (await server.events({ kind: DROP, limit: 200 }, true)).events;
  } catch {
    // As above.
  }
}

// Any request of the reader shows that the session has ended: the login comes at once.
effect(() => {
  if (server.who.value === null && heard_at.peek() !== null && !login_needed.peek()) void begin();
});

let source: Source | null = null;

function connect() {
  source?.close();
  source = server.listen({
    state: take,
    beat: (time_ms) => {
      batch(() => heard(time_ms));
      look_if_due();
    },
    event: (event) => {
      events.value = [...events.value, event].slice(-EVENTS_MAX);
      if (event.kind === DROP) drop_events.value = [...drop_events.value, event].slice(-EVENTS_MAX);
    },
    reset: () => void load_events(),
    // The reader's role may have changed. A refusal is not handled here: the stream is refused, too.
    opened: () => void server.session(true).catch(() => undefined),
    broken: (refused) => {
      if (refused) setTimeout(() => void begin(), TRY_AGAIN_MS);
    },
  });
}

/** Asks for the reader's session, and opens the stream. `is_unattended`: the page asks without the reader. */
export async function begin(is_unattended = true) {
  try {
    await server.session(is_unattended);
    batch(() => {
      if (login_needed.value) logins.value += 1;
      login_needed.value = false;
      refusal.value = null;
    });
  } catch (error) {
    const refused = error instanceof server.Refusal && !error.kind.startsWith("silent") ? error : null;
    login_needed.value = refused?.status === 401;
    refusal.value = refused && refused.status !== 401 ? refused : null;
    if (!login_needed.value) setTimeout(() => void begin(), TRY_AGAIN_MS);
    return;
  }
  connect();
  void load_events();
  try {
    about.value = await server.about(is_unattended);
  } catch {
    // The stream reports the silence.
  }
}
