// Small parts that several screens share.
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { type Say as Sentence, type Severity, known_of } from "./cases.ts";
import { bytes, duration, full_time, now, percent, progress, rate, time } from "./format.ts";
import { awaiting, drives, drives_fault, here, in_s, jobs, login_needed, logins, refusal, silent_since, state } from "./live.ts";
import type { components } from "./contract.d.ts";
import { known } from "./server.ts";
import { Said } from "./said.tsx";
import type { Action, ArrayView, Drive, MemberView, Seat, Spoken, Task } from "./types.ts";
import { type Key, language, t } from "./words.ts";

const PATHS = {
  good: "M4.5 12.5l5 5 10-11",
  critical: "M6 6l12 12M18 6L6 18",
  warning: "M12 4v10M12 19v.5",
  notice: "M12 10v9M12 5v.5",
  missing: "M5 12h14",
  rebuilding: "M12 4v12M7 11l5 5 5-5M5 20h14",
  spare: "M12 5v14M5 12h14",
  away: "M5 12h14",
  now: "M4 12h4l3-7 3 14 3-7h3",
  arrays: "M4 6h16M4 12h16M4 18h16",
  drives: "M4 5h16v14H4zM8 15h4M16.5 15v.01",
  activity: "M12 4a8 8 0 100 16 8 8 0 000-16zM12 8v4.5l3 2",
  bell: "M6 17v-6a6 6 0 0112 0v6M4 17h16M10.5 20.5h3M12 3v2",
  settings: "M4 7h9M17 7h3M4 17h3M11 17h9M15 4.5v5M9 14.5v5",
} as const;

/** A sign. It never stands alone: words say the same. */
export function Sign({ name, ...rest }: { name: keyof typeof PATHS; class?: string }) {
  return (
    <svg viewBox="0 0 24 24" class={`sign ${rest.class ?? name}`} aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}

export const Say = ({ it }: { it: Sentence }) => ("key" in it ? <>{t(it.key, it.values)}</> : <span lang="en">{it.text}</span>);

/** A sentence of which English parts (`english`) are marked, and commands, between backticks, are set as such. */
export const Told = ({ text }: { text: string }) => (
  <>{text.split(/\uE000([^\uE001]*)\uE001/).map((part, index) => (index % 2 === 1 ? <span lang="en"><Commands text={part} /></span> : <Commands text={part} />))}</>
);

function Commands({ text }: { text: string }) {
  const parts = text.split("`");
  // A name may have a backtick of its own.
  if (parts.length % 2 === 0) return <>{text}</>;
  return <>{parts.map((part, index) => (index % 2 === 1 ? <code class="mono">{part}</code> : part))}</>;
}

const CHANNELS: Record<string, Key> = { mail: "channel_mail", webhook: "channel_webhook", program: "channel_program", console: "channel_console" };
/** A channel of alarms. */
export const channel_word = (name: string) => (CHANNELS[name] ? t(CHANNELS[name]) : name);

export const severity_word: Record<Severity, Key> = { critical: "critical", warning: "warning", notice: "notice" };

/** `ms`: by the server's clock, as in `Ago`. The reader's own clock is the one that he compares with. */
export function When({ ms }: { ms: number }) {
  const at = here(ms);
  return (
    <time dateTime={new Date(at).toISOString()} title={full_time(at)}>
      {time(at)}
    </time>
  );
}

export const Ago = ({ ms }: { ms: number }) => <>{t("ago", { time: duration(Math.max(0, (now.value - here(ms)) / 1000), true) })}</>;

export const is_closed = () => silent_since.value !== null;

/** True if the reader may do what takes this role. */
export const may = (role: "operate" | "admin") => {
  const mine = known.value?.role;
  return mine === "admin" || mine === role;
};

/** A button that is closed while nobody answers, and to readers without the right. It takes the focus all the same, and a press says why. */
export function Act(props: { children: ComponentChildren; onClick: () => void; role?: "operate" | "admin"; primary?: boolean; danger?: boolean; busy?: boolean }) {
  const [is_pressed, set_pressed] = useState(false);
  const needed = props.role ?? "operate";
  const why = is_closed() ? t("closed_silent") : may(needed) ? undefined : t("closed_role", { needed, mine: known.value?.role ?? "view" });
  return (
    <>
      <button
        type="button"
        class={props.primary ? "primary" : props.danger ? "danger" : ""}
        disabled={why === undefined && props.busy}
        aria-disabled={why !== undefined}
        title={why}
        onClick={why === undefined ? props.onClick : () => set_pressed(true)}
      >
        {props.children}
      </button>
      {why !== undefined && (
        <span class="why" role="status">
          {/* Steps tell the reader to press it: one without the right need not try. */}
          {(is_pressed || (props.primary && !is_closed())) && why}
        </span>
      )}
    </>
  );
}

/** A bar of what is done, with its words beside it. */
export function Meter({ value, label }: { value: number; label: string }) {
  const bar = useRef<HTMLSpanElement>(null);
  useEffect(() => {
    if (bar.current) bar.current.style.inlineSize = `${value * 100}%`;
  }, [value]);
  return (
    <span class="meter" role="progressbar" aria-label={label} aria-valuenow={Math.floor(value * 100)} aria-valuemin={0} aria-valuemax={100}>
      <span ref={bar} />
    </span>
  );
}

const SWEEPS: Record<string, Key> = { resync: "resync", rebuild: "rebuild", scrub: "scrub", repair: "repair" };
export const sweep_word = (kind: string) => (SWEEPS[kind] ? t(SWEEPS[kind]) : kind);

/** A sweep's progress, its pace, and when it ends. */
export function Progress({ task }: { task: Task }) {
  const done = progress(task.done_bytes, task.total_bytes);
  const ends = task.left_s === null || task.left_s === undefined ? null : in_s(task.left_s);
  return (
    <div class="task">
      <p class="task-line">
        <strong>{sweep_word(task.kind)}</strong> <span class="figure">{percent(done)}</span>
        <span class="soft">
          {t("of_bytes", { done: bytes(task.done_bytes), total: bytes(task.total_bytes) })} · {rate(task.bytes_per_s)}
        </span>
      </p>
      <Meter value={done} label={sweep_word(task.kind)} />
      <p class="soft">{ends === null ? t("end_unknown") : t("ends_at", { time: time(ends), left: duration(task.left_s ?? 0, true) })}</p>
    </div>
  );
}

const ROLES: Record<string, [Key, keyof typeof PATHS]> = {
  "in sync": ["in_sync", "good"],
  rebuilding: ["rebuilding", "rebuilding"],
  replacing: ["replacing", "rebuilding"],
  spare: ["spare", "spare"],
  failed: ["failed_member", "critical"],
  lost: ["lost_member", "critical"],
};
/** A member that is gone keeps its role if the array cannot do without it. */
/** A member that leaves a request unanswered for so long is silent, as for the daemon; each request waits for a moment. */
const SILENT_MS = 5000;
/** True if requests to a member that works hang. */
export const is_silent = (member: MemberView) => (member.waiting_ms ?? 0) >= SILENT_MS && !["failed", "lost"].includes(role_of(member));
/** Why a member that has its slot does not work. */
export const trouble_of = (member: MemberView): "is_silent" | "is_full" | "is_deleted" | null =>
  is_silent(member) ? "is_silent" : member.role === "failed" ? null : member.no_room ? "is_full" : member.file_deleted ? "is_deleted" : null;

export const role_of = (member: MemberView) => (member.lost ? "lost" : member.role);
export const role_word = (role: string) => (ROLES[role] ? t(ROLES[role][0]) : role);
export const role_sign = (role: string) => ROLES[role]?.[1] ?? "notice";

export const is_drive = (member: MemberView) => member.direct !== null && member.direct !== undefined;
/** The end of a serial number tells drives apart; of a name both ends do. */
function ending({ serial, path }: MemberView): string {
  if (serial) return serial.slice(-8);
  const name = path.split("/").pop() ?? "";
  return name.length <= 12 ? name : `${name.slice(0, 5)}…${name.slice(-6)}`;
}

/** The array's slots as they stand side by side, each with the drive in it; those that it is about are marked. */
export function Bays({ array, about = [], name, is_brief = false }: { array: ArrayView; about?: string[]; name: string; is_brief?: boolean }) {
  if (known_of(array) === "nothing") return null;
  const parts = array.spans.length > 0 ? array.spans : [array];
  return (
    <>
      {parts.map((part) => (
        <Slots key={part.name} part={part} about={about} name={parts.length > 1 ? part.name : name} titled={parts.length > 1} is_brief={is_brief} />
      ))}
    </>
  );
}

function Slots({ part, about, name, titled, is_brief }: { part: ArrayView; about: string[]; name: string; titled: boolean; is_brief: boolean }) {
  // A slot shows the drive that has it now; one that has lost it stands beside.
  const members = part.members.filter(is_drive).sort((a, b) => Number(a.role === "failed") - Number(b.role === "failed"));
  const slots = new Map<number, MemberView | null>(part.missing_slots.map((slot) => [slot, null]));
  const beside: MemberView[] = [];
  for (const member of members) {
    const { slot, role } = member;
    if (slot === null || slot === undefined || role === "spare" || role === "replacing") beside.push(member);
    else if (role !== "failed" || !slots.get(slot)) slots.set(slot, member);
    else beside.push(member);
  }
  const row = [...slots].sort(([a], [b]) => a - b);
  const count = row.length + beside.length;
  return (
    <div class="bays-part">
      {titled && <p class="bays-title">{name}</p>}
      <ul class={is_brief ? "bays brief-bays" : "bays"} style={{ "--count": count, "--half-count": Math.ceil(count / 2) }} aria-label={t("slots_of", { array: name })}>
        {row.map(([slot, member]) => (
          <Bay key={slot} slot={slot} member={member} marked={member ? about.includes(member.path) : about.length > 0 && part.missing_slots.includes(slot)} is_brief={is_brief} />
        ))}
        {beside.map((member) => (
          <Bay key={member.path} slot={null} member={member} marked={about.includes(member.path)} is_brief={is_brief} />
        ))}
      </ul>
    </div>
  );
}

function Bay({ slot, member, marked, is_brief }: { slot: number | null; member: MemberView | null; marked: boolean; is_brief: boolean }) {
  const role = member && role_of(member);
  const state = role === null ? "missing" : role.replace(" ", "-");
  const trouble = member && trouble_of(member);
  const word = trouble ? t(trouble) : role === null ? t("missing") : role_word(role);
  // What works needs no words beside its sign, so that those of the drives that are meant stand out.
  const hidden = is_brief && !marked && !trouble && role === "in sync" ? " hidden" : "";
  return (
    <li class={`bay ${state}${marked ? " marked" : ""}`} title={member ? [member.path, member.model, member.serial].filter(Boolean).join(" · ") : word}>
      <span class="bay-slot">{slot === null ? "+" : slot}</span>
      <Sign name={trouble ? "critical" : role === null ? "missing" : role_sign(role)} />
      <span class={`bay-word${hidden}`}>{word}</span>
      <span class={`bay-serial${hidden}`}>{member ? ending(member) : "–"}</span>
    </li>
  );
}

/** Of an array that does not answer the last state is shown, with its time. */
export function AsOf({ array }: { array: ArrayView }) {
  const known = known_of(array);
  if (known === "present") return null;
  return (
    <p class="as-of">
      <Sign name="warning" /> {known === "nothing" ? t("never_answered") : t("as_of", { time: time(now.value - (array.silent_s ?? 0) * 1000) })}
    </p>
  );
}

/** What an array still survives. One that has failed has nothing left to lose by a further drive. */
export const survival = (view: ArrayView): string =>
  view.health === "failed" ? t("reason_failed") : view.losses_survived > 0 ? t("reason_survives", { n: view.losses_survived }) : t("reason_survives_none");

/** Bytes a second of clients. */
export function Rates({ read, written }: { read: number; written: number }) {
  return (
    <p class="rates">
      <span>
        {t("reads")} <strong>{rate(read)}</strong>
      </span>{" "}
      <span>
        {t("writes")} <strong>{rate(written)}</strong>
      </span>
    </p>
  );
}

export function Pill({ state, children }: { state: string; children: ComponentChildren }) {
  const sign = state === "good" ? "good" : state === "critical" ? "critical" : state === "warning" ? "warning" : "notice";
  return (
    <span class={`pill ${state}`}>
      <Sign name={sign} />
      {children}
    </span>
  );
}

/** Where a drive sits, if the machine knows. */
export function place_of(seat: Seat | null | undefined): string | null {
  if (!seat?.slot) return null;
  return seat.enclosure ? t("in_seat", { slot: seat.slot, enclosure: seat.enclosure }) : t("in_slot", { slot: seat.slot });
}

/** Where a person finds a drive: its place and what stands on it, else its path. */
export const where_is = (path: string, drive: Pick<Drive, "seat" | "serial"> | undefined) =>
  [place_of(drive?.seat), drive?.serial && t("serial_is", { serial: drive.serial })].filter(Boolean).join(", ") || path;

/** What is shown beside it is not the present: since when, and that it is not. */
export function Silence() {
  const since = silent_since.value;
  return (
    <div>
      {refusal.value ? (
        <p class="silence">
          <Sign name="critical" />
          <span role="alert">
            {refusal.value.status === 0 ? (
              <Told text={t(silence_word(refusal.value))} />
            ) : (
              <>
                <strong>{t(refusal.value.status === 403 ? "refused_reader" : refusal.value.status === 421 ? "refused_address" : "refused_other")}</strong> <Said text={refusal.value.message} said={refusal.value.said} />
              </>
            )}
          </span>
        </p>
      ) : since !== null && (
        <p class="silence">
          <Sign name="critical" />
          <span>
            {/* The seconds count on. A screen reader must not read out each of them. */}
            <strong aria-live="off">{t("no_answer_since", { time: time(since), ago: duration((now.value - since) / 1000) })}</strong>{" "}
            <span role="alert">{t(state.value ? "no_answer_means" : "no_answer_yet")}</span>
          </span>
        </p>
      )}
    </div>
  );
}

/** A modal window of the browser's own: it holds the focus, and Escape closes it. */
export function Window({ title, onClose, children }: { title: string; onClose: () => void; children: ComponentChildren }) {
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement;
    return () => {
      box.current?.close();
      if (before instanceof HTMLElement) before.focus({ preventScroll: true });
    };
  }, []);
  // An open dialog would lie over the login.
  useEffect(() => {
    if (login_needed.value) box.current?.close();
    else if (!box.current?.open) box.current?.showModal();
  }, [login_needed.value]);
  return (
    <dialog ref={box} aria-labelledby="window-title" onCancel={(event) => (event.preventDefault(), onClose())}>
      <header class="window-head">
        <h2 id="window-title">{title}</h2>
        <button type="button" class="quiet" onClick={onClose} aria-label={t("close")}>
          <Sign name="critical" class="plain" />
        </button>
      </header>
      {(refusal.value || silent_since.value !== null) && <Silence />}
      {children}
    </dialog>
  );
}

/** A refusal of the server, or the lack of an answer: see `server.Refusal`. */
export type Fault = { message: string; status: number; kind: string; said?: Spoken | null };

const SILENCES: Record<string, Key> = { silent_order: "no_answer_now", no_access: "cockpit_no_access", no_daemon: "cockpit_no_daemon" };
const silence_word = ({ kind }: { kind: string }) => SILENCES[kind] ?? "no_answer_read";

/** What a refusal means, by its kind. The server's own sentence says why. */
const REFUSALS: Record<string, Key> = {
  not_found: "refusal_not_found",
  invalid: "refusal_invalid",
  refused: "refusal_refused",
  unsafe: "refusal_unsafe",
  failed: "refusal_failed",
  unauthorized: "refusal_unauthorized",
  forbidden: "refusal_forbidden",
  plan_needed: "refusal_plan_needed",
  plan_changed: "refusal_plan_changed",
  too_many: "refusal_too_many",
} satisfies Record<components["schemas"]["ApiErrorKind"], Key>;
const refusal_word = (kind: string) => (language.value !== "en" && REFUSALS[kind] ? `${t(REFUSALS[kind])} ` : "");

/** A fault, shown where the request was made. */
export const Refused = ({ error }: { error: Fault | null }) =>
  error && (
    <p class="refused" role="alert">
      <Sign name="critical" />{" "}
      {error.status === 0 ? (
        <Told text={t(silence_word(error))} />
      ) : (
        <span>
          {refusal_word(error.kind)}
          <Said text={error.message} said={error.said} />
        </span>
      )}
    </p>
  );

/**
 * Says why the list of the machine's drives is missing or old: the server has not answered yet, or the last request failed. Shows
 * nothing if the list is current.
 */
export const NoDrives = () =>
  drives_fault.value ? (
    <div>
      <p>{t(drives.value ? "drives_old" : "drives_unread")}</p>
      <Refused error={drives_fault.value} />
    </div>
  ) : drives.value ? null : (
    <p class="soft">{t("asking")}</p>
  );

/** A line of the last minutes; `label` says it in words. `roof`: what could be at most, as a dashed line. */
export function Spark({ values, label, roof }: { values: number[]; label: string; roof?: number | null }) {
  const highest = Math.max(roof ?? 0, ...values, 1);
  const height = (value: number) => 30 - (value / highest) * 28;
  const points = values.map((value, index) => `${(index / Math.max(1, values.length - 1)) * 100},${height(value)}`);
  return (
    <svg class="spark" viewBox="0 0 100 31" preserveAspectRatio="none" role="img" aria-label={label}>
      {points.length > 1 && (
        <>
          <polygon points={`0,30 ${points.join(" ")} 100,30`} />
          <polyline points={points.join(" ")} />
        </>
      )}
      {roof ? <line class="spark-roof" x1="0" x2="100" y1={height(roof)} y2={height(roof)} /> : null}
    </svg>
  );
}

/** What is new on the screen takes the focus, so that a keyboard and a screen reader go on there. */
export function useFocus<T extends HTMLElement>(on: unknown) {
  const part = useRef<T>(null);
  const before = useRef(on);
  useLayoutEffect(() => {
    if (before.current !== on) part.current?.focus();
    before.current = on;
  }, [on]);
  return part;
}

/** While it is shown, a drive that is put in comes into the list by itself. */
export function useAwaited(is_wanted = true) {
  useEffect(() => {
    if (!is_wanted) return;
    awaiting.value += 1;
    return () => {
      awaiting.value -= 1;
    };
  }, [is_wanted]);
}

/**
 * Calls `clear` when a job of this action on this array is done, also one of another reader: the values chosen for the action are
 * outdated then.
 */
export function useDone(action: Action["action"], array: string, clear: () => void) {
  const done = jobs.value.findLast((job) => job.action.action === action && "array" in job.action && job.action.array === array && job.state === "done")?.id;
  useEffect(clear, [done]);
}

/**
 * Loads something when it is first shown, by `reload`, and when a value of `on` or `news` changes. The reader changes the values
 * of `on`. Those of `news` change without the reader, so `load` is then called with `is_unattended`.
 */
export function useLoaded<T>(
  load: (is_unattended: boolean) => Promise<T>,
  on: unknown[],
  news: unknown[] = [],
): { value: T | null; error: Fault | null; reload: () => void } {
  const [value, set_value] = useState<T | null>(null);
  const [error, set_error] = useState<Fault | null>(null);
  const [round, set_round] = useState(0);
  const wished = useRef<string | null>(null);
  useEffect(() => {
    let is_current = true;
    const wish = JSON.stringify([on, round]);
    const is_unattended = wished.current === wish;
    wished.current = wish;
    load(is_unattended).then(
      (loaded) => is_current && (set_value(loaded), set_error(null)),
      (reason) => is_current && set_error(reason),
    );
    return () => {
      is_current = false;
    };
  }, [...on, ...news, round]);
  // After a login a load that was refused is repeated. A value that is here stays: the reader may have edited it.
  useEffect(() => {
    if (error) set_round(round + 1);
  }, [logins.value]);
  return { value, error, reload: () => set_round(round + 1) };
}
