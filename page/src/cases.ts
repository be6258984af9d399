// What is wrong with the machine, in the reader's language.
//
// The server says which matters stand, and the worst first; here each kind has its sentences. Each sentence is a key of the catalogue. A matter of
// a kind that has none is shown in the server's words.
import type { Action, ArrayEntry, ArrayView, Matter, MemberView, State } from "./types.ts";
import type { Key, Values } from "./words.ts";

export type Severity = "critical" | "warning" | "notice";
export type Say = { key: Key; values?: Values } | { text: string };

export type Case = {
  id: string;
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
  todo: Say[];
  avoid: Say[];
  /** The way out that the page can plan; an empty path in it stands for a drive that the reader chooses. */
  remedy: Action | null;
  /** The reason in the server's words. */
  reason: string | null;
};

/** Members of an array and its spans that are drives. */
export const drives_of = (array: ArrayView): MemberView[] => [
  ...array.members.filter((member) => member.direct !== null && member.direct !== undefined),
  ...array.spans.flatMap(drives_of),
];

/** An array and all its spans. */
export const family = (array: ArrayView): ArrayView[] => [array, ...array.spans.flatMap(family)];

export const spares_of = (array: ArrayView) => array.members.filter((member) => member.role === "spare");

/** A drive's short name. */
export const label = (member: { path: string }) => member.path.split("/").pop() || member.path;

/** All that is wrong, the worst first. */
export const cases = (state: State): Case[] => state.summary.matters.map((matter, index) => case_of(matter, index, state.arrays));

function case_of(matter: Matter, index: number, arrays: ArrayEntry[]): Case {
  const entry = arrays.find(({ name, view }) => name === matter.array || (view && family(view).some((part) => part.name === matter.array)));
  const view = (entry?.view && family(entry.view).find((part) => part.name === matter.array)) ?? null;
  const members = entry?.view ? drives_of(entry.view) : [];
  const words = words_of(matter, view, entry);
  const left = view?.losses_survived ?? 0;
  const lost = Math.max(1, view?.missing_slots.length ?? 0);
  const values = { array: matter.array, drive: label({ path: matter.drives[0] ?? "" }), left, lost, n: view?.mismatch_sectors ?? 0 };
  const say = (key: Key): Say => ({ key, values });
  const [remedy = null] = matter.remedies;
  return {
    id: `${matter.array} ${matter.kind} ${matter.drives[0] ?? index}`,
    array: entry?.name ?? matter.array,
    severity: matter.urgency === "well" ? "notice" : matter.urgency,
    what: words ? say(words.what) : { text: matter.what },
    means: words ? say(words.means) : { text: matter.means },
    since_ms: matter.since_ms ?? null,
    view,
    drives: members.filter((member) => matter.drives.includes(member.path)),
    todo: words ? words.todo.map(say) : [{ text: matter.action }],
    avoid: words ? words.avoid.map(say) : [{ text: matter.avoid }],
    remedy,
    reason: words ? (matter.reason ?? null) : null,
  };
}

type Words = { what: Key; means: Key; todo: Key[]; avoid: Key[] };

function words_of({ kind }: Matter, view: ArrayView | null, entry: ArrayEntry | undefined): Words | null {
  const is_bare = view?.losses_survived === 0;
  switch (kind) {
    case "not_served":
      switch (entry?.state) {
        case "absent":
          return { what: "case_not_served", means: "case_absent_means", todo: ["do_cables", "do_release"], avoid: ["not_create"] };
        case "waiting":
          return { what: "case_not_served", means: "case_waiting_means", todo: ["do_attach", "do_start_without"], avoid: ["not_force"] };
        default:
          return { what: "case_not_served", means: "case_waiting_means", todo: ["do_remove_cause"], avoid: ["not_end_user"] };
      }
    case "silent":
      return view && { what: "case_silent", means: "case_silent_means", todo: ["do_silent"], avoid: ["not_kill"] };
    case "failed":
      return { what: "case_failed", means: "case_failed_means", todo: ["do_stop_clients", "do_bring_back"], avoid: ["not_force_failed"] };
    case "rebuilding":
      return is_bare
        ? { what: "case_rebuilding_bare", means: "means_rebuilding_bare", todo: ["do_wait", "do_faster"], avoid: ["not_pull_another", "not_restart"] }
        : { what: "case_rebuilding", means: "means_rebuilding", todo: ["do_wait", "do_faster"], avoid: ["not_pull_another", "not_restart"] };
    case "paused":
      return { what: "case_paused", means: is_bare ? "means_none_left" : "means_some_left", todo: ["do_resume"], avoid: ["not_leave_paused"] };
    case "degraded":
      return {
        what: is_bare ? "case_degraded_bare" : "case_degraded",
        means: is_bare ? "means_none_left" : "means_some_left",
        todo: ["do_look_serial", "do_new_drive", "do_plan"],
        avoid: ["not_pull_uncompared", "not_restart"],
      };
    case "read_only":
      return { what: "case_read_only", means: "case_read_only_means", todo: ["do_remove_cause"], avoid: ["not_force_failed"] };
    case "mismatch":
      return { what: "case_mismatch", means: "case_mismatch_means", todo: ["do_mismatch"], avoid: ["not_repair_blind"] };
    case "member_silent":
      return { what: "case_member_silent", means: "case_member_silent_means", todo: ["do_member_silent"], avoid: ["not_kill"] };
    case "no_space":
      return { what: "case_no_room", means: "case_no_room_means", todo: ["do_room"], avoid: ["not_delete_image"] };
    case "replaced":
      return { what: "case_replaced", means: "case_replaced_means", todo: ["do_take_out"], avoid: ["not_reuse"] };
    case "DriveReplace":
      return { what: "case_replace", means: "case_replace_means", todo: ["do_replace_before"], avoid: ["not_pull_working"] };
    case "DriveWatch":
      return { what: "case_watch", means: "case_watch_means", todo: ["do_watch"], avoid: ["not_ignore_watch"] };
    case "SlowMember":
      return { what: "case_slow", means: "case_slow_means", todo: ["do_slow"], avoid: ["not_pull_working"] };
    case "SparesMissing":
      return { what: "case_spares", means: "case_spares_means", todo: ["do_add_spare"], avoid: ["not_take_spare"] };
    case "FailSpare":
      return { what: "case_spare_failed", means: "case_spare_failed_means", todo: ["do_take_out"], avoid: ["not_reuse"] };
    case "Unreadable":
      return { what: "case_unreadable", means: "case_unreadable_means", todo: ["do_restore"], avoid: ["not_pull_any"] };
    default:
      return null;
  }
}
