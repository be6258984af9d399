// What is wrong with the machine, the worst first: each case with its meaning, its risk, its drives, what to do, and what not to do now.
//
// Each sentence is a key of the catalogue, so that it can be said in the reader's language. A case names the kinds of the server's matters that it
// explains; a matter of any other kind is shown in the server's words, so that nothing is left out.
import type { Action, ArrayEntry, ArrayView, Drive, Event, Matter, MemberView, State } from "./types.ts";
import type { Key, Values } from "./words.ts";

export type Severity = "critical" | "warning" | "notice";
type Kind = Matter["kind"];
export type Say = { key: Key; values?: Values } | { text: string };

export type Case = {
  id: string;
  array: string;
  /** The kinds of the server's matters that it explains. */
  kinds: Kind[];
  severity: Severity;
  /** The fault in a sentence. */
  what: Say;
  means: Say;
  since_ms: number | null;
  /** The array or span that it is about; null: it is not served. */
  view: ArrayView | null;
  /** The drives that it is about. */
  drives: MemberView[];
  todo: Say[];
  avoid: Say[];
  /** The way out that the page can plan; an empty path in it stands for a drive that the reader chooses. */
  remedy: Action | null;
  /** The reason in the server's words. */
  reason: string | null;
};

const RANK: Record<Severity, number> = { critical: 0, warning: 1, notice: 2 };
const SILENT_MS = 5000;
const INCOMPLETE: Kind[] = ["degraded", "rebuilding", "paused"];

/** Members of an array and its spans that are drives. */
export const drives_of = (array: ArrayView): MemberView[] => [
  ...array.members.filter((member) => member.direct !== null && member.direct !== undefined),
  ...array.spans.flatMap(drives_of),
];

/** An array and all its spans. */
export const family = (array: ArrayView): ArrayView[] => [array, ...array.spans.flatMap(family)];

export const spares_of = (array: ArrayView) => array.members.filter((member) => member.role === "spare");

/** All that is wrong, from the state, the machine's drives and the latest events. */
export function cases(state: State, drives: Drive[], events: Event[]): Case[] {
  const found: Case[] = [];
  for (const entry of state.arrays) {
    const { view, name } = entry;
    if (!view) {
      const one = not_served(entry);
      if (one) found.push(one);
      continue;
    }
    for (const part of family(view)) found.push(...of_array(part, name, events));
    const working = drives_of(view).filter((member) => member.role !== "failed");
    for (const member of working) {
      const report = drives.find((drive) => drive.path === member.path)?.health;
      if (!report || report.verdict === "good") continue;
      const is_replace = report.verdict === "replace";
      found.push({
        ...blank(view, name, `health ${member.path}`, is_replace ? "critical" : "warning"),
        kinds: ["DriveReplace", "DriveWatch"],
        what: { key: is_replace ? "case_replace" : "case_watch", values: { drive: label(member) } },
        means: { key: is_replace ? "case_replace_means" : "case_watch_means" },
        drives: [member],
        todo: is_replace ? [{ key: "do_replace_before" }] : [{ key: "do_watch" }],
        avoid: [{ key: is_replace ? "not_pull_working" : "not_ignore_watch" }],
        remedy: { action: "replace", array: name, old: member.path, new: "" },
        reason: report.findings.map((finding) => finding.sentence).join(" "),
      });
    }
    for (const member of working.filter((member) => entry.slow.some((one) => one.path === member.path))) {
      found.push({
        ...blank(view, name, `slow ${member.path}`, "warning"),
        kinds: ["SlowMember"],
        what: { key: "case_slow", values: { drive: label(member) } },
        means: { key: "case_slow_means" },
        drives: [member],
        todo: [{ key: "do_slow" }],
        avoid: [{ key: "not_pull_working" }],
        remedy: { action: "replace", array: name, old: member.path, new: "" },
      });
    }
  }
  // What none of these explains is shown in the server's own words.
  const is_told = (matter: Matter) => {
    const are_same = (one: Case) => one.drives.length === 0 || matter.drives.length === 0 || one.drives.some((member) => matter.drives.includes(member.path));
    return found.some((one) => (one.view?.name ?? one.array) === matter.array && one.kinds.includes(matter.kind) && are_same(one));
  };
  const untold = state.summary.matters.filter((matter) => !is_told(matter));
  found.push(...untold.map(in_server_words));
  for (const one of found) one.since_ms ??= began(one, state.summary.matters);
  return found.sort((a, b) => RANK[a.severity] - RANK[b.severity]);
}

/** A member's short name: the serial number is what stands on the drive. */
export const label = (member: { path: string; serial?: string | null }) => member.path.split("/").pop() || member.path;

function began(one: Case, matters: Matter[]): number | null {
  const same = matters.filter((matter) => matter.array === (one.view?.name ?? one.array) && matter.since_ms);
  const about = same.filter((matter) => one.drives.some((member) => matter.drives.includes(member.path)));
  return (about[0] ?? (same.length === 1 ? same[0] : undefined))?.since_ms ?? null;
}

function in_server_words(matter: Matter): Case {
  return {
    ...blank(null, matter.array, `server ${matter.what}`, matter.urgency === "critical" ? "critical" : "warning"),
    what: { text: matter.what },
    means: { text: matter.means },
    since_ms: matter.since_ms ?? null,
    todo: [{ text: matter.action }],
    avoid: [{ text: matter.avoid }],
    remedy: matter.remedies[0] ?? null,
  };
}

function blank(view: ArrayView | null, array: string, id: string, severity: Severity): Case {
  const nothing: Say = { text: "" };
  const lists = { kinds: [], drives: [], todo: [], avoid: [] };
  return { id: `${array} ${view?.name ?? ""} ${id}`, array, severity, what: nothing, means: nothing, since_ms: null, view, ...lists, remedy: null, reason: null };
}

function not_served({ name, state, text }: ArrayEntry): Case | null {
  const base = { ...blank(null, name, "not served", "critical"), kinds: ["not_served"] as Kind[], what: { key: "case_not_served", values: { array: name } } as Say, reason: text };
  const start: Action = { action: "start", array: name, force: false };
  switch (state) {
    case "served":
    case "stopped":
      return null;
    case "absent":
      return { ...base, means: { key: "case_absent_means" }, todo: [{ key: "do_cables" }, { key: "do_release", values: { array: name } }], avoid: [{ key: "not_create" }] };
    case "waiting":
      return { ...base, means: { key: "case_waiting_means" }, todo: [{ key: "do_attach" }, { key: "do_start_without" }], avoid: [{ key: "not_force" }], remedy: start };
    case "refused":
      return { ...base, means: { key: "case_waiting_means" }, todo: [{ key: "do_remove_cause" }], avoid: [{ key: "not_end_user" }], remedy: start };
  }
}

/** The time of the first loss since the array was last complete. */
function since(view: ArrayView, events: Event[]): number | null {
  let first: number | null = null;
  for (const event of events) {
    if (event.array !== view.name) continue;
    if (event.kind === "member_failed" || event.kind === "member_gone") first ??= event.time_ms;
    if (event.kind === "member_in_sync" || event.kind === "started") first = null;
  }
  return first;
}

const last_time = (events: Event[], array: string, kinds: string[]) =>
  events.findLast((event) => event.array === array && kinds.includes(event.kind))?.time_ms ?? null;

function of_array(view: ArrayView, array: string, events: Event[]): Case[] {
  const found: Case[] = [];
  const left = view.losses_survived;
  const rebuilds = view.sweep?.kind === "rebuild";
  const failed = view.members.filter((member) => member.role === "failed");
  const name = view.name;
  const add = (id: string, severity: Severity, rest: Partial<Case>) => found.push({ ...blank(view, array, id, severity), ...rest });
  // A span tells its own.
  const own = view.spans.length === 0;

  if (view.silent_s) {
    add("silent", "critical", {
      kinds: ["silent"],
      what: { key: "case_silent", values: { array: name } },
      means: { key: "case_silent_means" },
      since_ms: Date.now() - view.silent_s * 1000,
      todo: [{ key: "do_silent" }],
      avoid: [{ key: "not_kill" }],
    });
  }
  if (view.health === "failed" && own) {
    add("failed", "critical", {
      kinds: ["failed"],
      what: { key: "case_failed", values: { array: name } },
      means: { key: "case_failed_means" },
      since_ms: since(view, events),
      drives: failed,
      todo: [{ key: "do_stop_clients" }, { key: "do_bring_back" }],
      avoid: [{ key: "not_force_failed" }],
      reason: failed[0]?.failure ?? null,
    });
  }
  if (view.health === "degraded" && own) {
    const since_ms = since(view, events);
    const means: Say = { key: left === 0 ? "means_none_left" : "means_some_left", values: { n: left } };
    const lost = Math.max(1, view.missing_slots.length);
    if (rebuilds) {
      add("degraded", left === 0 ? "critical" : "warning", {
        kinds: INCOMPLETE,
        what: { key: left === 0 ? "case_rebuilding_bare" : "case_rebuilding", values: { array: name } },
        means: { key: left === 0 ? "means_rebuilding_bare" : "means_rebuilding", values: { n: left } },
        since_ms,
        drives: [...failed, ...view.members.filter((member) => member.role === "rebuilding")],
        todo: [{ key: "do_wait" }, { key: "do_faster" }],
        avoid: [{ key: "not_pull_another" }, { key: "not_restart" }],
        reason: failed[0]?.failure ?? null,
      });
    } else if (view.paused && spares_of(view).length > 0) {
      add("degraded", "critical", {
        kinds: INCOMPLETE,
        what: { key: "case_paused", values: { array: name } },
        means,
        since_ms,
        drives: failed,
        todo: [{ key: "do_resume" }],
        avoid: [{ key: "not_leave_paused" }],
        remedy: { action: "resume", array },
      });
    } else {
      add("degraded", "critical", {
        kinds: INCOMPLETE,
        what: { key: left === 0 ? "case_degraded_bare" : "case_degraded", values: { array: name, n: lost } },
        means,
        since_ms,
        drives: failed,
        todo: [{ key: "do_look_serial" }, { key: "do_new_drive" }, { key: "do_plan" }],
        avoid: [{ key: "not_pull_uncompared" }, { key: "not_restart" }],
        remedy: { action: "add", array, drive: "", span: name === array ? null : name },
        reason: failed[0]?.failure ?? null,
      });
    }
  }
  if (view.unreplayed) {
    add("read only", "critical", {
      kinds: ["ReadOnly"],
      what: { key: "case_read_only", values: { array: name } },
      means: { key: "case_read_only_means" },
      todo: [{ key: "do_remove_cause" }],
      avoid: [{ key: "not_force_failed" }],
      reason: view.unreplayed,
    });
  }
  if ((view.mismatch_sectors ?? 0) > 0 && !view.mismatch_repaired && own) {
    add("mismatch", "warning", {
      kinds: ["mismatch"],
      what: { key: "case_mismatch", values: { array: name, n: view.mismatch_sectors ?? 0 } },
      means: { key: "case_mismatch_means" },
      since_ms: last_time(events, name, ["mismatch"]),
      drives: view.members.filter((member) => member.wrong_sectors > 0),
      todo: [{ key: "do_mismatch" }],
      avoid: [{ key: "not_repair_blind" }],
      remedy: { action: "scrub", array, repair: true, from_bytes: 0 },
    });
  }
  for (const member of view.members) {
    if ((member.waiting_ms ?? 0) >= SILENT_MS && member.role !== "failed") {
      add(`silent ${member.path}`, "critical", {
        kinds: ["MemberSilent"],
        what: { key: "case_member_silent", values: { drive: label(member) } },
        means: { key: "case_member_silent_means" },
        since_ms: Date.now() - (member.waiting_ms ?? 0),
        drives: [member],
        todo: [{ key: "do_member_silent" }],
        avoid: [{ key: "not_kill" }],
        remedy: { action: "fail", array, drive: member.path },
      });
    }
    if (member.no_room) {
      add(`room ${member.path}`, "critical", {
        kinds: ["no_space"],
        what: { key: "case_no_room", values: { drive: label(member) } },
        means: { key: "case_no_room_means" },
        drives: [member],
        todo: [{ key: "do_room" }],
        avoid: [{ key: "not_delete_image" }],
      });
    }
    if (member.role === "failed" && view.health === "optimal") {
      add(`gone ${member.path}`, "notice", {
        kinds: ["replaced"],
        what: { key: "case_replaced", values: { array: name } },
        means: { key: "case_replaced_means" },
        since_ms: last_time(events, name, ["member_in_sync"]),
        drives: [member],
        todo: [{ key: "do_take_out" }],
        avoid: [{ key: "not_reuse" }],
        remedy: { action: "remove", array, drive: member.path },
        reason: member.failure ?? null,
      });
    }
  }
  return found;
}
