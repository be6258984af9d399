// What is wrong with the machine, in the reader's language.
//
// The server says which matters stand, and the worst first; here each kind has its sentences. Each sentence is a key of the catalogue. A matter of
// a kind that has none is shown in the server's words.
import type { Dropped } from "./dropped.ts";
import { bytes, listed, with_unit } from "./format.ts";
import type { Action, ArrayEntry, ArrayView, Drive, Matter, MatterKind, MemberView, Spoken, State } from "./types.ts";
import type { Key, Values } from "./words.ts";

export type Severity = "critical" | "warning" | "notice";
export type Say = { key: Key; values?: Values } | { text: string };

export type Case = {
  id: string;
  kind: string;
  array: string;
  severity: Severity;
  /** The fault in a sentence. */
  what: Say;
  means: Say;
  since_ms: number | null;
  /** The array or span that it is about; null: it is not served. */
  view: ArrayView | null;
  /** The drives that it is about. */
  drives: MemberView[];
  /** Which drives empty slots had last, where the array lists them no more. */
  last: LastDrive[];
  /** The empty slots of which nothing is known. */
  unknown: number[];
  todo: Say[];
  /** What to do instead where a free drive of the machine can take the place. */
  todo_with_free: Say[] | null;
  avoid: Say[];
  /** The way out that the page can plan; an empty path in it stands for a drive that the reader chooses. */
  remedy: Action | null;
  /** The reader looks at the drives before that. */
  is_last: boolean;
  /** The reason in the server's words, and by its code and values if it has them. */
  reason: string | null;
  said: Spoken | null;
  /** The person who knows of it. */
  acknowledged: Matter["acknowledged"];
  /** The cases before it. */
  worse: Case[];
};

export type LastDrive = { slot: number; path: string; serial: string | null; place: string | null; failed_ms: number | null };

/** Members of an array and its spans that are drives. */
export const drives_of = (array: ArrayView): MemberView[] => [
  ...array.members.filter((member) => member.direct !== null && member.direct !== undefined),
  ...array.spans.flatMap(drives_of),
];

/** What a view is worth: that of an array that does not answer has its last state, or nothing. */
export const known_of = (view: ArrayView): "present" | "past" | "nothing" => (typeof view.silent_s !== "number" ? "present" : view.level === "" ? "nothing" : "past");

/** An array and all its spans. */
export const family = (array: ArrayView): ArrayView[] => [array, ...array.spans.flatMap(family)];

export const spares_of = (array: ArrayView) => array.members.filter((member) => member.role === "spare");

/** The least size of a drive that takes a place in this array. */
export const least_bytes = (view: ArrayView): number => {
  const sizes = drives_of(view).filter((member) => member.role !== "failed").flatMap((member) => member.size_bytes ?? []);
  return sizes.length > 0 ? Math.min(...sizes) : 0;
};

/** Drives of one model differ a little in size, and an array uses less than all of it: the server's plan decides. */
export const is_large_enough = (drive: Drive, least: number) => (drive.size_bytes ?? 0) >= least * 0.98;

/** An empty, unused drive of the members' kind that can take a place in this array: `named` before, else the first of the list. */
export function free_drive(view: ArrayView, drives: Drive[], named?: string): Drive | null {
  const members = drives_of(view);
  const paths = new Set(members.map((member) => member.path));
  // A new drive may sit where a failed member was.
  const working = new Set(members.filter((member) => member.role !== "failed").map((member) => member.path));
  const kinds = new Set(drives.filter((drive) => paths.has(drive.path)).map((drive) => drive.kind));
  const least = least_bytes(view);
  const fits = drives.filter((drive) => drive.free && !drive.error && !drive.pool && !working.has(drive.path) && kinds.has(drive.kind) && is_large_enough(drive, least));
  return fits.find(({ path }) => path === named) ?? fits[0] ?? null;
}

/** The free drives that cases have named. A better one must not come into the button while the reader's hand is on its way. */
const NAMED = new Map<string, string>();

/** The free drive that the way out of a case takes, if the machine has one. What a worse case takes is not offered twice. */
export function free_of(one: Case, drives: Drive[] | null): Drive | null {
  if (!one.todo_with_free || !one.view || !drives || !one.remedy || !needs_drive(one.remedy)) return null;
  const taken = new Set(one.worse.map((worse) => free_of(worse, drives)?.path));
  const free = free_drive(one.view, drives.filter((drive) => !taken.has(drive.path)), NAMED.get(one.id));
  if (free) NAMED.set(one.id, free.path);
  return free;
}

/** True if the reader still has to name a drive for this. */
export const needs_drive = (action: Action) => (action.action === "add" && action.drive === "") || (action.action === "replace" && action.new === "");

/** The same with this drive. */
export const with_drive = (action: Action, path: string): Action =>
  action.action === "add" ? { ...action, drive: path } : action.action === "replace" ? { ...action, new: path } : action;

/** The steps of a case. If the machine has a free drive, none must be fetched before the rebuild begins. */
export function steps_of(one: Case, drives: Drive[] | null): Say[] {
  const free = free_of(one, drives);
  const lost = [...one.drives, ...one.last];
  // A drive that is out already is neither to be fetched nor to be left in.
  const is_out = drives !== null && lost.length > 0 && lost.every(({ path }) => !drives.some((drive) => drive.path === path && !drive.free));
  const steps = free && one.todo_with_free ? one.todo_with_free : one.todo;
  const is_needless = (key: Key) => (LOOKS.has(key) && is_out) || (key.startsWith("do_leave_failed") && (is_out || one.drives.length === 0));
  const needed = steps.filter((say) => !("key" in say && is_needless(say.key)));
  return needed.map((say) => ("key" in say && free ? { ...say, values: { ...say.values, free: label(free) } } : say));
}

const LOOKS = new Set<Key>(["do_look_serial", "do_look_name", "do_look_other", "do_look_file", "do_look_other_file"]);

/** As shops and the page call a size. */
export const to_buy = (least: number) => (least < 1e10 ? bytes(least) : `${bytes(least)} (${with_unit(Math.round(least / 1e9), "GB")})`);

/** A drive's short name. */
export const label = (member: { path: string }) => member.path.split("/").pop() || member.path;

/** All that is wrong, the worst first. `drops`: what is known of drives that arrays have dropped. */
export function cases(state: State, drops: Dropped[]): Case[] {
  const all = state.summary.matters.map((matter, index) => case_of(matter, index, state, home_of(state), drops));
  all.forEach((one, index) => (one.worse = all.slice(0, index)));
  return all;
}

/** True if the drive that failed in this slot is still a member. */
const is_listed = (view: ArrayView, slot: number) => view.members.some((member) => member.role === "failed" && member.slot === slot);

/** The daemon remembers drives that were in sync for a while. Those that failed sooner are in the events. */
function last_drives(view: ArrayView, drops: Dropped[]): LastDrive[] {
  return view.missing_slots.filter((slot) => !is_listed(view, slot)).flatMap((slot) => {
    const known = view.last_drives?.find((last) => last.slot === slot);
    const drop = drops.findLast((drop) => drop.array === view.name && drop.slot === slot);
    const [path, at_ms] = [drop?.path ?? known?.path, drop?.at_ms ?? null];
    if (path === undefined) return [];
    const is_same = known?.path === path;
    return [{ slot, path, serial: (is_same && known.serial) || null, place: (is_same && known.place) || null, failed_ms: at_ms }];
  });
}

/** True if the reader has something to do: a rebuild ends by itself. */
export const needs_reader = (one: { severity: string; kind: string }) => one.severity !== "notice" && one.kind !== "rebuilding";

/** Whether the reader may leave the whole machine alone: not while anything else needs him; `untold`: no person is notified of a failure. */
export type Home = "go" | "untold" | "stay";
export const home_of = ({ summary }: State): Home =>
  summary.matters.some((matter) => needs_reader({ severity: severity_of(matter), kind: String(matter.kind) })) ? "stay" : summary.told_by.length === 0 ? "untold" : "go";

/** Kinds that are about drives that are missing. */
const LOSSES = new Set(["degraded", "paused", "failed"]);

const severity_of = (matter: Matter): Severity => (matter.urgency === "well" ? "notice" : matter.urgency);

function case_of(matter: Matter, index: number, { arrays }: State, home: Home, drops: Dropped[]): Case {
  const entry = arrays.find(({ name, view }) => name === matter.array || (view && family(view).some((part) => part.name === matter.array)));
  const view = (entry?.view && family(entry.view).find((part) => part.name === matter.array)) ?? null;
  const members = entry?.view ? drives_of(entry.view) : [];
  const own = members.filter((member) => matter.drives.includes(member.path)).sort((a, b) => (a.slot ?? Infinity) - (b.slot ?? Infinity));
  const is_loss = view !== null && LOSSES.has(String(matter.kind)) && known_of(view) === "present";
  const last = is_loss ? last_drives(view, drops) : [];
  const unknown = is_loss ? view.missing_slots.filter((slot) => !is_listed(view, slot) && !last.some((one) => one.slot === slot)) : [];
  const marked = [...own, ...last];
  const mark = marked.length === 0 ? "other" : marked.every((one) => one.serial) ? "serial" : "name";
  const words = words_of(matter, view, entry, { home, mark });
  const left = view?.losses_survived ?? 0;
  const { undecided } = view ?? {};
  const lost = Math.max(1, (view?.missing_slots.length ?? 0) + (view?.members.filter((member) => member.role === "rebuilding").length ?? 0));
  // Readers know a span by its array.
  const array = entry && entry.name !== matter.array ? `${entry.name} (${matter.array})` : matter.array;
  const values = { array, drive: label({ path: matter.drives[0] ?? "" }), drives: matter.drives.length, names: listed(marked.map(label)), marked: Math.max(1, marked.length), below: below(matter.drives), size: to_buy(view ? least_bytes(view) : 0), left, lost, n: undecided?.sectors ?? 0, first: undecided?.first_sector ?? 0, last: undecided?.last_sector ?? 0, first_drive: label({ path: undecided?.drives[0] ?? "" }), spares: view ? spares_of(view).length : 0 };
  const meant = matter.drives.length + last.length > 0 ? [...matter.drives, ...last.map(({ path }) => path)] : members.map(({ path }) => path);
  const on_files = meant.length > 0 && meant.every(is_file);
  const say = (key: Key): Say => ({ key: (on_files && OF_FILES[key]) || key, values });
  const [remedy = null] = matter.remedies;
  // What is to be done needs an array that takes writes.
  const first: Key | null = !words || !view ? null : remedy?.action === "set" ? "do_make_writable" : matter.kind === "degraded" && view.read_only && !remedy ? "do_writable_first" : null;
  return {
    id: `${matter.array} ${matter.kind} ${matter.drives[0] ?? index}`,
    kind: String(matter.kind),
    array: entry?.name ?? matter.array,
    severity: severity_of(matter),
    what: words ? say(words.what) : { text: matter.what },
    means: words ? say(words.means) : { text: matter.means },
    since_ms: matter.since_ms ?? null,
    view,
    drives: own,
    last,
    unknown,
    todo: first ? [say(first)] : words ? words.todo.map(say) : [{ text: matter.action }],
    todo_with_free: first ? null : (words?.todo_with_free?.map(say) ?? null),
    avoid: words ? words.avoid.map(say) : [{ text: matter.avoid }],
    remedy,
    is_last: words?.is_last ?? false,
    reason: words && matter.reason ? named(matter.reason, members) : null,
    said: matter.said ?? null,
    acknowledged: matter.acknowledged,
    worse: [],
  };
}

export const is_file = (path: string) => !path.startsWith("/dev/");

/** Sentences about drives that are pulled and plugged, and the same for image files. */
const OF_FILES: Partial<Record<Key, Key>> = {
  case_replaced: "case_replaced_file",
  case_members_silent_means: "case_members_silent_means_file",
  do_look_serial: "do_look_file",
  do_look_name: "do_look_file",
  do_look_other: "do_look_other_file",
  do_new_drive: "do_new_file",
  do_leave_failed: "do_leave_failed_file",
  do_leave_working: "do_leave_working_file",
  do_take_out: "do_take_out_file",
  do_bring_back: "do_bring_back_file",
  do_common_cause: "do_common_cause_file",
  do_member_silent: "do_member_silent_file",
  do_member_silent_no_spare: "do_member_silent_no_spare_file",
  do_member_silent_wait: "do_member_silent_wait_file",
  do_slow: "do_slow_file",
  not_pull_other: "not_pull_other_file",
  not_pull_another: "not_pull_another_file",
  not_pull_working: "not_pull_working_file",
  not_pull_any: "not_pull_any_file",
  not_reuse: "not_reuse_file",
};

/** Where these drives lie: image files by their folders. */
const below = (paths: string[]): string => listed([...new Set(paths.map((path) => (!is_file(path) ? path : path.slice(0, Math.max(1, path.lastIndexOf("/"))))))]);

/** The server's words with the short names of members, whose paths stand above. A command between backticks stays as it is typed. */
export const named = (text: string, members: MemberView[]) => {
  const longest_first = [...members].sort((a, b) => b.path.length - a.path.length);
  const short = (part: string) => longest_first.reduce((said, member) => said.replaceAll(member.path, label(member)), part);
  return text.split("`").map((part, index) => (index % 2 === 1 ? part : short(part))).join("`");
};

type Words = { what: Key; means: Key; todo: Key[]; todo_with_free?: Key[] | undefined; avoid: Key[]; is_last?: boolean };
/** `x` where the catalogue has `case_x` and `case_x_means`. */
type Stem = { [K in Key]: K extends `case_${infer S}_means` ? (`case_${S}` extends Key ? S : never) : never }[Key];
type Steps = { todo: Key[]; avoid: Key[] };
/** A function where the words depend on the array; its null: the server's words. */
type Wording = ({ stem: Stem } & Steps) | ((view: ArrayView | null, entry: ArrayEntry | undefined, matter: Matter, context: Context) => Words | null);
/** `mark`: how the drives that are meant differ from others: their serial numbers, their names, or only that they are none of those shown. */
type Context = { home: Home; mark: "serial" | "name" | "other" };

const is_bare = (view: ArrayView | null) => view?.losses_survived === 0;
const left = (view: ArrayView | null): Key => {
  if (!view || has_target(view)) return is_bare(view) ? "means_none_left" : "means_some_left";
  const spares = spares_of(view).length;
  return is_bare(view) ? (spares > 0 ? "means_none_left" : "means_none_left_no_spare") : spares > 0 ? "means_some_left_spares" : "means_some_left_no_spare";
};
const has_target = (view: ArrayView | null) => view?.members.some((member) => member.role === "rebuilding") ?? false;
/** Each slot has a drive, and one of them is not filled. */
const has_all_drives = (view: ArrayView | null) => has_target(view) && view?.missing_slots.length === 0;
const DO_WAIT: Record<Home, Key> = { go: "do_wait", untold: "do_wait_untold", stay: "do_wait_stay" };
const LOOK: Record<Context["mark"], Key> = { serial: "do_look_serial", name: "do_look_name", other: "do_look_other" };
const restores = (view: ArrayView | null) => view?.sweep?.kind === "rebuild" || view?.sweep?.kind === "resync";
/** A rebuild runs, and does not fill every gap. */
const fills_another = (view: ArrayView | null) => has_target(view) && restores(view);
const regular = (stem: Stem, steps: Steps & { todo_with_free?: Key[] }): Words => ({ what: `case_${stem}` as Key, means: `case_${stem}_means` as Key, ...steps });
const not_served = (means: Key, todo: Key[], avoid: Key[]): Words => ({ what: "case_not_served", means, todo, avoid });

const STATES: Record<MatterKind, Wording> = {
  not_served: (_, entry) =>
    entry?.state === "absent"
      ? not_served("case_absent_means", ["do_cables", "do_release"], ["not_create"])
      : entry?.obstacle === "group"
        ? not_served("case_waiting_means", ["do_create_group", "do_start_then"], ["not_take_group_out"])
      : entry?.state === "waiting" && entry.obstacle === "in_use"
        ? not_served("case_waiting_means", ["do_end_user"], ["not_end_user"])
      : entry?.state === "waiting" && entry.obstacle === "silent"
        ? not_served("case_waiting_means", ["do_look_silent"], ["not_force_silent"])
      : entry?.state === "waiting" && entry.obstacle === "too_few"
        ? not_served("case_too_few_means", ["do_common_cause_missing", "do_attach"], ["not_force", "not_create"])
      : entry?.state === "waiting"
        ? not_served("case_waiting_means", ["do_attach", "do_start_without"], ["not_force"])
        : not_served("case_waiting_means", ["do_remove_cause"], ["not_end_user"]),
  silent: (view) => view && regular("silent", { todo: ["do_silent"], avoid: ["not_kill"] }),
  failed: { stem: "failed", todo: ["do_stop_clients", "do_bring_back"], avoid: ["not_force_failed"] },
  rebuilding: (view, _entry, _matter, { home }) => ({
    ...(is_bare(view)
      ? { what: "case_rebuilding_bare", means: "means_rebuilding_bare" }
      : { what: "case_rebuilding", means: "means_rebuilding" }),
    todo: [DO_WAIT[home]],
    avoid: ["not_pull_another", "not_restart"],
  }),
  paused: (view) => ({
    what: "case_paused",
    means: is_bare(view) ? "means_paused_bare" : "means_paused",
    todo: [has_all_drives(view) ? "do_resume_rebuild" : view && spares_of(view).length > 0 ? "do_resume" : "do_resume_for_pool"],
    avoid: ["not_leave_paused"],
  }),
  degraded: (view, _entry, _matter, { mark }) => ({
    what: is_bare(view) ? "case_degraded_bare" : "case_degraded",
    ...(has_all_drives(view) && !restores(view)
      ? { means: "means_ended_early", todo: ["do_ended_early", "do_plan"], avoid: ["not_pull_another", "not_restart"] }
      : {
          means: left(view),
          todo: [...(fills_another(view) ? (["do_fill_other"] as const) : []), LOOK[mark], "do_new_drive", "do_plan"],
          todo_with_free: [...(fills_another(view) ? (["do_fill_other"] as const) : []), "do_plan_free", "do_leave_failed"],
          avoid: ["not_pull_other", "not_restart"],
        }),
  }),
  read_only: { stem: "read_only", todo: ["do_stop_and_start"], avoid: ["not_force_failed"] },
  superblock_refused: { stem: "superblock_refused", todo: ["do_let_write", "do_copy_off"], avoid: ["not_stop_outdated"] },
  mismatch: (view, _entry, matter) => {
    const { undecided } = view ?? {};
    // The scrub has named the wrong member.
    if (!undecided && matter.drives.length > 0) return regular("mismatch", { todo: ["do_mismatch"], avoid: ["not_pull_working"] });
    const is_copies = !!undecided && undecided.drives.length > 0;
    const steps = { todo: ["do_mismatch_look", "do_mismatch_compare", is_copies ? "do_mismatch_copies_last" : "do_mismatch_last"], avoid: ["not_repair_blind"] } satisfies Steps;
    return { ...regular(!undecided ? "mismatch" : is_copies ? "mismatch_copies" : "mismatch_parity", steps), is_last: true };
  },
  // The server offers to fail a member only if the array can do without it.
  member_silent: (view, _, matter) =>
    regular("member_silent", {
      todo: [
        matter.remedies.length === 0
          ? "do_member_silent_wait"
          : view && spares_of(view).length > 0
            ? "do_member_silent"
            : "do_member_silent_no_spare",
      ],
      avoid: ["not_kill"],
    }),
  members_silent: { stem: "members_silent", todo: ["do_common_cause"], avoid: ["not_fail_silent", "not_kill"] },
  no_space: (_view, _entry, matter) => ({ ...regular("no_room", { todo: ["do_room"], avoid: ["not_delete_image"] }), ...(matter.drives.length > 1 && { what: "case_no_room_several" as const }) }),
  file_deleted: (_view, _entry, matter) =>
    regular("file_deleted", matter.remedies.length > 0 ? { todo: ["do_copy_deleted"], avoid: ["not_stop_deleted"], todo_with_free: ["do_copy_free"] } : { todo: ["do_copy_data"], avoid: ["not_stop_deleted"] }),
  // A failed spare had no slot that another drive could have taken.
  replaced: (view, _, matter) => {
    const member = view && drives_of(view).find(({ path }) => path === matter.drives[0]);
    const is_spare = !!member && typeof member.slot !== "number" && member.failure !== "replaced";
    return regular(is_spare ? "spare_failed" : "replaced", { todo: ["do_take_out"], avoid: ["not_reuse"] });
  },
  left_alone: { stem: "left_alone", todo: ["do_step_named"], avoid: ["not_overwrite_unknown"] },
};

/** What an alarm means depends on its array: while that lacks redundancy, the array comes first. */
function while_well(stem: Stem, steps: Steps & { todo_with_free?: Key[] }): Wording {
  return (view) => {
    const after = (means: Key, avoid: Key[]): Words => ({ ...regular(stem, steps), means, todo: ["do_array_first", "do_afterwards"], todo_with_free: undefined, avoid });
    if (!view || known_of(view) !== "present") return after("alarm_of_unknown", ["not_pull_another"]);
    if (view.health === "failed") return after("alarm_of_failed", ["not_force_failed"]);
    if (view.health === "degraded") return after(is_bare(view) ? "alarm_of_bare" : "alarm_of_degraded", ["not_pull_another"]);
    return stem === "replace" && is_bare(view) ? { ...regular(stem, steps), means: "alarm_without_redundancy", todo: ["do_copy_before"], todo_with_free: undefined } : regular(stem, steps);
  };
}

/** Alarms of which the state of the array says nothing. Others, such as that of a rebuild's progress, are no matters. */
const ALARMS: Partial<Record<Extract<Matter["kind"], string>, Wording>> = {
  DriveReplace: while_well("replace", { todo: ["do_replace_before"], avoid: ["not_pull_working"], todo_with_free: ["do_copy_free", "do_leave_working"] }),
  DriveWatch: { stem: "watch", todo: ["do_watch"], avoid: ["not_in_haste"] },
  CacheUnflushed: { stem: "unflushed", todo: ["do_stop_and_start_cache"], avoid: ["not_power_off"] },
  SlowMember: while_well("slow", { todo: ["do_slow"], avoid: ["not_pull_working"] }),
  SparesMissing: while_well("spares", { todo: ["do_add_spare"], avoid: ["not_take_spare"], todo_with_free: ["do_spare_free"] }),
  FailSpare: while_well("spare_failed", { todo: ["do_take_out"], avoid: ["not_reuse"] }),
  // The reason begins with the part of the configuration.
  ConfigFault: (_view, _entry, matter) =>
    matter.reason?.startsWith("[metrics]")
      ? { ...regular("config", { todo: ["do_free_port"], avoid: ["not_silence"] }), means: "config_metrics_means" }
      : matter.reason?.startsWith("[api] tokens")
        ? { ...regular("config", { todo: ["do_tokens"], avoid: ["not_all_tokens"] }), means: "config_tokens_means" }
      : matter.reason?.startsWith("[api]")
        ? { ...regular("config", { todo: ["do_good_file", "do_reload"], avoid: ["not_without_tls"] }), means: "config_api_means" }
        : regular("config", { todo: ["do_good_file", "do_reload"], avoid: ["not_without_tls"] }),
  Unreadable: { stem: "unreadable", todo: ["do_restore"], avoid: ["not_pull_any"] },
};

const WORDINGS: Partial<Record<string, Wording>> = { ...STATES, ...ALARMS };

function words_of(matter: Matter, view: ArrayView | null, entry: ArrayEntry | undefined, context: Context): Words | null {
  // A newer server may know more kinds.
  const wording = WORDINGS[String(matter.kind)];
  if (!wording) return null;
  return typeof wording === "function" ? wording(view, entry, matter, context) : regular(wording.stem, wording);
}
