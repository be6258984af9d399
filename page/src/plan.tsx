// One window for everything that changes something: choose a drive where one is needed, see the plan, confirm it, follow it to the end.
import { signal } from "@preact/signals";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { type Home, drives_of, free_drive, home_of, is_file, is_large_enough, label, least_bytes, needs_drive, with_drive } from "./cases.ts";
import { bytes, count, duration, now, percent, rate, time } from "./format.ts";
import { array_of, drives, drives_fault, drops, here, inside, job_of, logins, look_at_drives, state } from "./live.ts";
import { type Fault, Act, NoDrives, Progress, Refused, Sign, Told, Window, is_closed, may, useAwaited, useFocus, where_is } from "./parts.tsx";
import { Said, all_worded } from "./said.tsx";
import * as server from "./server.ts";
import type { Action, Drive, DriveHealth, Job, Plan, PlanOffer, PlanTime, Task } from "./types.ts";
import { type Key, english, t } from "./words.ts";

/**
 * What is being planned, the drive that the page has chosen for it (`path`; the reader may choose another), the job that carries it out, and
 * whether that removes a failed drive; null: the window is closed.
 */
/** What the window shows: a plan, the job that carries it out, or the refusal that came after the reader had closed the window. */
type Planned = { action: Action; title?: string; path?: string; job?: Job; is_failed?: boolean; refused?: Fault };
export const planned = signal<Planned | null>(null);
export const open_plan = (action: Action, title?: string, path?: string) => (planned.value = { action, title, path });

// Without a cast: the compiler asks for the word of every action that the server knows.
const NAMES: Record<Action["action"], Key> = {
  create: "act_create",
  destroy: "act_destroy",
  wipe: "act_wipe",
  adopt: "act_adopt",
  release: "act_release",
  start: "act_start",
  stop: "act_stop",
  rename: "act_rename",
  fail: "act_fail",
  remove: "act_remove",
  add: "act_add",
  replace: "act_replace",
  firmware: "act_firmware",
  scrub: "act_scrub",
  cancel_scrub: "act_cancel_scrub",
  pause: "act_pause",
  resume: "act_resume",
  speed: "act_speed",
  trim: "act_trim",
  set: "act_set",
  import: "act_import",
  spare_add: "act_spare_add",
  spare_remove: "act_spare_remove",
  locate: "act_locate",
};

const ERASURES: Record<NonNullable<(Action & { action: "wipe" })["means"]>, Key> = {
  signatures: "act_wipe",
  discard: "act_discard",
  secure_erase: "act_secure_erase",
  sanitize: "act_sanitize",
};

export const action_word = (action: Action) => {
  if (action.action === "scrub" && action.repair) return t("act_repair");
  if (action.action === "wipe") return t(ERASURES[action.means ?? "signatures"]);
  return t(NAMES[action.action]);
};

const title_of = (action: Action) => ("array" in action && action.action !== "import" && typeof action.array === "string" ? `${action_word(action)} – ${action.array}` : action_word(action));

export function PlanWindow() {
  const wanted = planned.value;
  if (!wanted) return null;
  return <Planning key={JSON.stringify(wanted.action)} shown={wanted} />;
}

/** Where the reader goes on, if what he looked at is no longer there: the drives of a new array, or an array of this name. */
function place_after(job: Job): string | null {
  const array = (name: string) => (array_of(name) ? `#/arrays/${encodeURIComponent(name)}` : "#/arrays");
  const { action, state } = job_of(job.id) ?? job;
  if (action.action === "create" && state !== "failed") return array(action.name);
  if (action.action === "destroy" && state === "done") return "#/arrays";
  if (action.action === "rename" && state === "done") return array(action.name);
  return null;
}

function Planning({ shown }: { shown: Planned }) {
  const { action: wanted, path, title = title_of(wanted), job = null, is_failed = false } = shown;
  const [action, set_action] = useState<Action>(path === undefined ? wanted : with_drive(wanted, path));
  const [offer, set_offer] = useState<PlanOffer | null>(null);
  const [error, set_error] = useState<Fault | null>(shown.refused ?? null);
  const chooses = needs_drive(action);
  const plans = useRef(shown.refused === undefined);
  const close = () => {
    planned.value = null;
    const place = job && place_after(job);
    if (place) location.hash = place;
    // The first screen now says something else, from its headline on.
    if (job) scrollTo(0, 0);
  };

  useEffect(() => {
    // A plan that is being carried out is not made anew after a login.
    if (chooses || job) return;
    // A late refusal is read before anything is planned anew.
    if (!plans.current) return void (plans.current = true);
    let is_current = true;
    set_offer(null);
    set_error(null);
    server.plan(action).then(
      (next) => is_current && set_offer(next),
      (reason: Fault) => is_current && set_error(reason),
    );
    return () => {
      is_current = false;
    };
  }, [action, logins.value]);

  const follow = (order: Ordered) => {
    // Whoever closes the window while the order is on its way has seen enough, unless it is refused. Another window is left alone.
    if (planned.value === shown) planned.value = { action: wanted, title, path, ...order };
    else if ("refused" in order) planned.value ??= { action, title, path, ...order };
  };

  const back = needs_drive(wanted) && !chooses && !job ? () => (set_offer(null), set_error(null), set_action(wanted)) : null;
  const step = job ? 3 : chooses ? 1 : 2;
  const chooses_first = needs_drive(wanted) && path === undefined;
  const head = useFocus<HTMLParagraphElement>(step);
  return (
    <Window title={title} onClose={close}>
      <p class="step soft" ref={head} tabIndex={-1}>{t("step_of", chooses_first ? { n: step, all: 3 } : { n: Math.max(1, step - 1), all: 2 })}</p>
      {chooses ? (
        <ChooseDrive action={action} onChoose={set_action} />
      ) : job ? (
        <Follow job={job} is_failed={is_failed} onClose={close} />
      ) : offer ? (
        <Confirm offer={offer} onBack={back} onOrdered={follow} onChanged={() => (set_offer(null), set_action({ ...action }))} />
      ) : error ? (
        <>
          <Refused error={error} />
          <div class="buttons">
            {back && (
              <button type="button" onClick={back}>
                {t("back")}
              </button>
            )}
            <button type="button" onClick={() => set_action({ ...action })}>
              {t("try_again")}
            </button>
          </div>
        </>
      ) : (
        <p class="soft">{t("planning")}</p>
      )}
    </Window>
  );
}

/** True of a drive that an array has dropped. What has nothing on it is a new one in its place. */
const has_failed = (drive: Drive) => !drive.free && ((drive.member?.role === "failed" && drive.member.served) || inside.value.some((one) => one.path === drive.path));

/** Drives that can take the place, the likeliest first, the one that the first screen names, and the least size. */
function candidates(action: Action): { fits: Drive[]; named: Drive | null; least: number } {
  const name = "array" in action ? action.array : "";
  const view = array_of(name)?.view;
  const members = view ? drives_of(view) : [];
  const least = view ? least_bytes(view) : 0;
  const in_use = new Set(members.filter((member) => member.role !== "failed" && member.role !== "spare").map((member) => member.path));
  const is_choice = (drive: Drive) => {
    if (in_use.has(drive.path) || drive.users.length > 0 || drive.error || (drive.pool && drive.free)) return false;
    if (drive.member?.served) return action.action === "replace" ? drive.member.role === "spare" && drive.member.array === name : drive.member.role === "failed" && drive.member.array === name;
    return true;
  };
  const rank = (drive: Drive) => (has_failed(drive) ? 3 : drive.member?.uuid === view?.uuid ? 0 : drive.free ? 1 : 2);
  const fits = (drives.value ?? []).filter(is_choice).sort((a, b) => rank(a) - rank(b) || a.path.localeCompare(b.path));
  return { fits, named: view ? free_drive(view, fits) : null, least };
}

function ChooseDrive({ action, onChoose }: { action: Action; onChoose: (action: Action) => void }) {
  const { fits, named, least } = candidates(action);
  const is_known = drives.value !== null && drives_fault.value === null;
  const [chosen, set_chosen] = useState<string | null>(null);
  const [is_looking, set_looking] = useState(false);
  const usable = fits.filter((drive) => is_large_enough(drive, least));
  const small = fits.length - usable.length;
  // Among several, a drive of another kind is for the reader to choose; one that has failed always is.
  const [only] = usable;
  const is_here = (path: string | null) => usable.some((drive) => drive.path === path);
  // The list changes as drives come and go. The reader's choice stays, and so does the first proposal: nothing moves under his hand.
  const proposed = useRef<string | null>(null);
  proposed.current ??= named?.path ?? (usable.length === 1 && only && !has_failed(only) ? only.path : null);
  const path = [chosen ?? proposed.current].find(is_here) ?? null;
  const look = async () => {
    set_looking(true);
    await look_at_drives(true);
    set_looking(false);
  };
  // A drive that was put in a minute ago must be in the list, and one that is put in now must come into it.
  useEffect(() => void look(), []);
  useAwaited();
  const go = () => {
    if (!path) return;
    onChoose(with_drive(action, path));
  };
  return (
    <>
      <NoDrives />
      {usable.length === 0 ? (
        is_known && <p>{t("no_candidate", { size: bytes(least) })}</p>
      ) : (
        <fieldset class="choices">
          <legend>{t("which_drive")}</legend>
          {usable.map((drive) => (
            <label key={drive.path} class="choice">
              <input type="radio" name="drive" checked={path === drive.path} onChange={() => set_chosen(drive.path)} />
              <DriveLine drive={drive} />
            </label>
          ))}
        </fieldset>
      )}
      {is_known && usable.length > 0 && !usable.some((drive) => drive.free) && <p>{t("no_free_here")}</p>}
      {small > 0 && <p class="soft">{t("too_small", { n: small, size: bytes(least) })}</p>}
      {path === null && usable.length > 0 && <p class="soft">{t("choose_first")}</p>}
      <div class="buttons">
        <button type="button" onClick={look} disabled={is_looking}>
          {t(is_looking ? "looking" : "look_again")}
        </button>
        <Act primary onClick={go} busy={path === null}>
          {t("show_plan")}
        </Act>
      </div>
    </>
  );
}

/** What a drive has behind it, in a line. */
const past = ({ wear_percent, power_on_hours, written_bytes, media_errors }: DriveHealth) =>
  [
    typeof wear_percent === "number" && `${t("wear")} ${percent(wear_percent / 100)}`,
    typeof power_on_hours === "number" && `${t("power_on")} ${t("hours_on", { n: power_on_hours })}`,
    typeof written_bytes === "number" && `${t("written_ever")} ${bytes(written_bytes)}`,
    media_errors ? `${t("media_errors")} ${count(media_errors)}` : null,
  ]
    .filter(Boolean)
    .join(" · ");

/** A drive on one line: its name, identity, size, and what lies on it. */
export function DriveLine({ drive }: { drive: Drive }) {
  const lies = drive.member ? t("member_of", { array: drive.member.array }) : english(drive.carries.join(", "));
  const { member } = drive;
  const is_new_here = drive.free && member?.role === "failed" && member.served;
  const says = () => {
    if (is_new_here) return t("new_in_place", { array: member.array });
    if (has_failed(drive)) return t("failed_here", { array: member?.array ?? inside.value.find((one) => one.path === drive.path)?.array ?? "" });
    if (drive.users.length > 0) return t("in_use", { by: english(drive.users.join(", ")) });
    return lies === "" ? t("drive_empty") : t("carries", { what: lies });
  };
  return (
    <span class="drive-line">
      <strong class="path">{drive.path}</strong>
      <span class="soft">
        {[drive.model, drive.size_bytes ? bytes(drive.size_bytes) : null].filter(Boolean).join(" · ")}
        {drive.serial && (
          <>
            {" · "}
            <span class="mono">{drive.serial}</span>
          </>
        )}
      </span>
      {drive.health && (
        <span class="soft">
          {past(drive.health)}
          {drive.health.verdict !== "good" && (
            <span class={drive.health.verdict === "watch" ? "notable" : "bad"}>
              {" "}
              <Sign name="warning" /> {t(`verdict_${drive.health.verdict}`)}
            </span>
          )}
        </span>
      )}
      <span class={drive.free ? "soft" : "notable"}><Told text={says()} /></span>
    </span>
  );
}

/** What became of an order. */
type Ordered = { job: Job; is_failed: boolean } | { refused: Fault };

function Confirm({ offer, onBack, onOrdered, onChanged }: { offer: PlanOffer; onBack: (() => void) | null; onOrdered: (order: Ordered) => void; onChanged: () => void }) {
  const { plan } = offer;
  const [typed, set_typed] = useState("");
  const [busy, set_busy] = useState(false);
  const [error, set_error] = useState<Fault | null>(null);
  const id = useId();
  const is_here = useRef(true);
  useEffect(() => () => void (is_here.current = false), []);
  const is_over = now.value > here(offer.expires_ms);
  const role = plan.role === "admin" ? "admin" : "operate";
  // What is to be confirmed by its name harms somebody, also if no data is lost.
  const harms = plan.loses.length > 0 || (plan.confirm !== null && plan.confirm !== undefined);
  const ready = !is_over && !busy && (plan.confirm === null || plan.confirm === undefined || typed === plan.confirm);
  const go = async () => {
    set_busy(true);
    // The state of the drive is read now: after the removal it is no longer known.
    const { action } = plan;
    const view = action.action === "remove" ? array_of(action.array)?.view : null;
    const is_failed = !!view && drives_of(view).some((member) => action.action === "remove" && member.path === action.drive && member.role === "failed");
    try {
      const job = await server.carry_out(offer.token, plan.confirm ? typed : undefined);
      onOrdered({ job, is_failed });
    } catch (reason) {
      set_error(reason as Fault);
      set_busy(false);
      if (!is_here.current) onOrdered({ refused: reason as Fault });
    }
  };
  const changed = error?.status === 409 || is_over;
  return (
    <form onSubmit={(event) => (event.preventDefault(), ready && !is_closed() && may(role) && void go())}>
      <PlanText plan={plan} takes={offer.takes} />
      <Comeback action={plan.action} />
      {plan.confirm && (
        <p class="field">
          <label for={id}>{t("type_to_confirm", { text: plan.confirm })}</label>
          <input id={id} value={typed} onInput={(event) => set_typed(event.currentTarget.value)} autocomplete="off" spellcheck={false} autofocus />
        </p>
      )}
      {is_over && <p role="status">{t("plan_over")}</p>}
      <Refused error={error} />
      <div class="buttons">
        {onBack && (
          <button type="button" onClick={onBack}>
            {t(plan.action.action === "add" || plan.action.action === "replace" ? "another_drive" : "back")}
          </button>
        )}
        {changed ? (
          <button type="button" class="primary" onClick={onChanged}>
            {t("new_plan")}
          </button>
        ) : (
          <Act primary={!harms} danger={harms} role={role} busy={!ready} onClick={go}>
            {t("do_it")}
          </Act>
        )}
      </div>
    </form>
  );
}

/** A drive that has failed is about to be filled again. */
function Comeback({ action }: { action: Action }) {
  const path = action.action === "add" ? action.drive : action.action === "replace" ? action.new : null;
  const drive = drives.value?.find((one) => one.path === path);
  if (!drive || !has_failed(drive)) return null;
  const drop = drops.value.find((one) => one.path === path);
  return (
    <p class="notable">
      <Sign name="warning" /> {t("failed_before", { drive: label(drive) })} {drop && t("failed_at", { time: time(here(drop.at_ms)) })} {t("fails_again")}
    </p>
  );
}

const BASIS: Record<PlanTime["basis"], Key> = { measured: "pace_measured", typical: "pace_typical", limit: "pace_limit" };

/** What happens and how long it takes, in a line; null: nobody knows. */
function lead_of({ action }: Plan, takes: PlanTime): string | null {
  const time_left = { time: duration(takes.seconds), until: time(now.value + takes.seconds * 1000) };
  if (action.action === "add") return t("plan_fills", { drive: label({ path: action.drive }), array: action.array, ...time_left });
  if (action.action === "replace") return t("plan_copies", { drive: label({ path: action.new }), old: label({ path: action.old }), ...time_left });
  return null;
}

export function PlanText({ plan, takes }: { plan: Plan; takes?: PlanTime | null | undefined }) {
  const lead = takes ? lead_of(plan, takes) : null;
  if (!takes || lead === null) return <PlanDetails plan={plan} />;
  return (
    <div class="plan">
      <p class="lead">{lead}</p>
      {plan.loses.length > 0 && <Loses plan={plan} />}
      <Warnings plan={plan} />
      {/* What is lost must be seen, and where. */}
      <details open={plan.loses.length > 0}>
        <summary>{t("what_is_written")}</summary>
        <div class="plan">
          <p>
            <Said text={plan.title} said={plan.said.title} />
          </p>
          <Writes plan={plan} />
          <p class="soft">{t(BASIS[takes.basis], { size: bytes(takes.bytes), rate: rate(takes.bytes_per_s) })}</p>
        </div>
      </details>
    </div>
  );
}

function PlanDetails({ plan }: { plan: Plan }) {
  return (
    <div class="plan">
      <p class="lead">
        <Said text={plan.title} said={plan.said.title} />
      </p>
      {plan.loses.length > 0 && <Loses plan={plan} />}
      <Writes plan={plan} />
      <Warnings plan={plan} />
    </div>
  );
}

const Loses = ({ plan }: { plan: Plan }) => (
  <div class="loses" role="note">
    <p>
      <Sign name="critical" /> <strong>{t("what_is_lost")}</strong>
    </p>
    <ul>
      {plan.loses.map((sentence, index) => (
        <li key={sentence}>
          <Said text={sentence} said={plan.said.loses[index]} />
        </li>
      ))}
    </ul>
  </div>
);

function Writes({ plan }: { plan: Plan }) {
  if (plan.writes.length === 0) return plan.writes_nothing ? <p class="soft">{t("writes_nothing")}</p> : null;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={t("what_is_written")}>
      <table class="stacks">
        <caption>{t("what_is_written")}</caption>
        <thead>
          <tr>
            <th scope="col">{t("drive")}</th>
            <th scope="col">{t("what")}</th>
            <th scope="col">{t("lost_there")}</th>
          </tr>
        </thead>
        <tbody>
          {plan.writes.map((write) => (
            <tr key={write.drive + write.what}>
              <th scope="row">
                <span class="path">{write.drive}</span>
                {write.identity && <small>{write.identity}</small>}
              </th>
              <td data-label={t("what")}>
                <Said text={write.what} said={write.said.what} />
                {write.extents.length > 0 && <small>{write.extents.map((extent) => t("extent", { length: bytes(extent.length_bytes), start: bytes(extent.start_bytes) })).join("; ")}</small>}
              </td>
              <td class={write.loses ? "bad" : "soft"} data-label={t("lost_there")}>{write.loses ? <Said text={write.loses} said={write.said.loses} /> : t("nothing")}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const Warnings = ({ plan }: { plan: Plan }) =>
  plan.warnings.length === 0 ? null : (
    <ul class="warnings">
      {plan.warnings.map((sentence, index) => (
        <li key={sentence}>
          <Sign name="warning" /> <Said text={sentence} said={plan.said.warnings[index]} />
        </li>
      ))}
    </ul>
  );

/**
 * What has become of a job that fills a drive, and that its daemon did not outlive: the array goes on with that by itself. null: it is no such
 * job, or the drive is not being filled.
 */
export function outlived({ state, action, ends }: Job): { text: string; task: Task | null; is_done: boolean } | null {
  if (state !== "failed" || !ends?.some(({ code }) => code === "job-cut")) return null;
  if (action.action !== "add" && action.action !== "replace") return null;
  const path = action.action === "add" ? action.drive : action.new;
  const entry = array_of(action.array);
  const role = entry?.view && drives_of(entry.view).find((member) => member.path === path)?.role;
  if (!entry || (role !== "in sync" && role !== "rebuilding" && role !== "replacing")) return null;
  const is_done = role === "in sync";
  const task = is_done ? null : (entry.tasks.find((one) => one.kind === "rebuild") ?? null);
  return { text: is_done ? t("job_cut_done", { drive: label({ path }) }) : t("job_cut_on"), task, is_done };
}

const MAY_CLOSE: Record<Home, Key> = { go: "may_close", untold: "may_close_untold", stay: "may_close_not" };

/** What the reader may do while the job runs. It may wait itself: while the sweeps of its array are paused. */
function may_close({ action, task }: Job): Key {
  const name = task?.array ?? ("array" in action ? action.array : null);
  const view = typeof name === "string" ? array_of(name)?.view : null;
  return MAY_CLOSE[view?.paused === true || !state.value ? "stay" : home_of(state.value)];
}

function Follow({ job, is_failed, onClose }: { job: Job; is_failed: boolean; onClose: () => void }) {
  const live = job_of(job.id) ?? job;
  const after = outlived(live);
  const task = after?.task ?? (live.state === "running" ? live.task : null);
  // The first screen shows a removed drive no more, and somebody still has to find it.
  const removed = is_failed && live.action.action === "remove" ? live.action.drive : null;
  const drive = drives.value?.find((one) => one.path === removed);
  const took = live.ended_ms ? (live.ended_ms - live.started_ms) / 1000 : null;
  return (
    <div class="follow">
      <div role="status">
        {live.state === "done" && (
          <p class="good">
            <Sign name="good" /> {t("job_done", { time: time(live.ended_ms ? here(live.ended_ms) : now.value), took: duration(took ?? 0, true) })}
          </p>
        )}
        {live.state === "cancelled" && (
          <p>
            <Sign name="notice" /> {t("job_cancelled")}
          </p>
        )}
        {after && (
          <p class={after.is_done ? "good" : ""}>
            <Sign name={after.is_done ? "good" : "notice"} /> {after.text}
          </p>
        )}
        {live.state === "failed" && !after && (
          <p class="bad">
            <Sign name="critical" /> {t("job_failed")}
          </p>
        )}
      </div>
      {job_text(live) !== "" && !after && !task && (
        <p>
          <JobText job={live} />
        </p>
      )}
      {live.state === "failed" && !after && (state.value?.summary.matters.length ?? 0) > 0 && <p>{t("job_failed_next")}</p>}
      {live.state === "done" && removed !== null && <p class="notable">{t(is_file(removed) ? "now_delete" : "now_take_out", { drive: label({ path: removed }), where: where_is(removed, drive) })}</p>}
      {task && <Progress task={task} />}
      {(live.state === "running" || task) && <p class="soft">{t(may_close(live))}</p>}
      <CancelJob job={live} />
      <div class="buttons">
        <button type="button" class={live.state === "running" ? "" : "primary"} onClick={onClose}>
          {t(live.state === "running" ? "close_window" : "close")}
        </button>
      </div>
    </div>
  );
}

/** The server's words of a job, less those that say nothing more than its state does. */
const SAYS_NOTHING = /^(it has begun|rebuild finished in \d+ ms, 0 sectors with mismatches)$/;
export const job_text = ({ text }: Job) => (SAYS_NOTHING.test(text) ? "" : text);

/** How a job goes, in the reader's language as far as the page knows it. */
export function JobText({ job }: { job: Job }) {
  const text = job_text(job);
  return text === "" ? null : <Told text={all_worded(job.ends) ?? english(text)} />;
}

const ENDS_EARLY = new Set<Action["action"]>(["scrub", "trim"]);

/** Ends a job early, where its work can end so. */
export function CancelJob({ job }: { job: Job }) {
  const [error, set_error] = useState<Fault | null>(null);
  if (job.state !== "running" || !ENDS_EARLY.has(job.action.action)) return null;
  return (
    <>
      <div class="buttons">
        <Act onClick={() => void server.cancel(job.id).catch(set_error)}>
          {t(job.action.action === "trim" ? "act_cancel_trim" : "act_cancel_the_scrub")}
          <span class="hidden"> <Said text={job.title} said={job.said} /></span>
        </Act>
      </div>
      <Refused error={error} />
    </>
  );
}
