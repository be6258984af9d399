// The first screen: one sentence for the machine, then each case with its drive, its risk, and the way out.
import { computed } from "@preact/signals";
import { type Case, type LastDrive, cases, drives_of, family, free_drive, free_of, is_file, known_of, label, least_bytes, named, spares_of, steps_of, to_buy } from "./cases.ts";
import { bytes, duration, listed, now, percent, time } from "./format.ts";
import { arrays, drives, drops, events, events_known, here, history, in_s, inside, jobs, state } from "./live.ts";
import { Act, Ago, AsOf, Bays, Pill, channel_word, Progress, Rates, Say, Sign, Spark, Told, When, is_silent, place_of, role_of, survival, trouble_of, where_is, role_sign, role_word, severity_word } from "./parts.tsx";
import { CancelJob, action_word, JobText, open_plan, outlived } from "./plan.tsx";
import { Said, by_words, worded } from "./said.tsx";
import type { Alarm, ArrayEntry, ArrayView, Job, MemberView, Scrubs, Task } from "./types.ts";
import { type Key, t } from "./words.ts";

export const found = computed<Case[]>(() => (state.value ? cases(state.value, drops.value) : []));

export function First() {
  const all = found.value;
  const served = arrays.value.filter((array) => array.view);
  // A rebuild that a case shows is not shown again as a job.
  const shown = all.flatMap((one) => (task_of(one) ? [one.view?.name] : []));
  const running = jobs.value.filter((job) => job.state === "running" && !(job.task && RESTORES.has(job.task.kind) && shown.includes(job.task.array)));
  const busy = arrays.value.filter((array) => array.view && known_of(array.view) === "present").flatMap((array) => array.tasks).filter((task) => !all.some((one) => one.view?.name === task.array));
  return (
    <>
      <Verdict all={all} served={served} />
      {all.map((one, index) =>
        index === 0 ? (
          <article key={one.id} class={`card case ${one.severity}`} aria-label={t("worst_matter")}>
            <h2 class="hidden">{t("worst_matter")}</h2>
            <CaseBody one={one} />
          </article>
        ) : (
          <details key={one.id} class={`card case ${one.severity}`}>
            <summary>
              <Pill state={one.severity}>{t(severity_word[one.severity])}</Pill>
              <h2>
                <Say it={one.what} />
              </h2>
            </summary>
            <div class="case">
              <p class="soft">
                <Say it={one.means} />
              </p>
              <CaseBody one={one} />
            </div>
          </details>
        ),
      )}
      {running.length > 0 && (
        <section class="card">
          <h2>{t("running_jobs")}</h2>
          {running.map((job) => (
            <JobLine key={job.id} job={job} />
          ))}
        </section>
      )}
      {busy.length > 0 && running.length === 0 && (
        <section class="card">
          <h2>{t("in_background")}</h2>
          {busy.map((task) => (
            <div key={task.array + task.kind}>
              <p class="soft">{t("array_named", { array: task.array })}</p>
              <Progress task={task} />
            </div>
          ))}
        </section>
      )}
      {arrays.value.length === 0 && (
        <p>
          <a class="button primary" href="#/create">
            {t("create_array")}
          </a>
        </p>
      )}
      {served.length > 0 && <Untold />}
      {served.length > 0 && <Reasons served={served} />}
    </>
  );
}

/** A marked line: without a channel a fault waits until somebody looks at this page. */
export function Untold() {
  if (!state.value || state.value.summary.told_by.length > 0) return null;
  return (
    <div class="banner warning untold">
      <Sign name="warning" />
      <div>
        <p>
          <strong>{t("told_by_none")}</strong> <a href="#/alarms">{t("told_by_how")}</a>
        </p>
      </div>
    </div>
  );
}

function Verdict({ all, served }: { all: Case[]; served: ArrayEntry[] }) {
  const worst = all[0];
  const count = served.reduce((sum, array) => sum + (array.view ? drives_of(array.view).length : 0), 0);
  // An administrator stopped them, so they are no matter. But they serve no clients, so "All is well" would be wrong.
  const stopped = arrays.value.filter((array) => array.state === "stopped");
  // Who is to pull a drive must not take the wrong one in a hurry: while something is wrong, that comes first.
  const pull = all.every((one) => one.severity === "notice") ? inside.value : [];
  // Scrubs should not stay held for good. Where redundancy is lacking, a matter says so.
  const held = arrays.value.filter((array) => is_held(array) && !all.some((one) => one.array === array.name && one.kind === "paused"));
  const kind = worst?.severity ?? (stopped.length + pull.length + held.length > 0 ? "notice" : "good");
  const still = (key: Key, of: typeof pull) => of.length > 0 && t(key, { drives: listed(of.map(label)) });
  const to_pull = [still("still_to_pull", pull.filter(({ path }) => !is_file(path))), still("still_to_delete", pull.filter(({ path }) => is_file(path)))].filter(Boolean).join(" ");
  const rest = [pull.length > 0 && to_pull, held.length > 0 && t("held_in_short")].filter(Boolean).join(" ");
  return (
    <header class={`verdict ${kind}`}>
      <Sign name={kind} />
      <div>
        <h1>{worst ? <Say it={worst.what} /> : arrays.value.length === 0 ? t("no_array") : served.length === 0 ? t("none_served") : rest !== "" ? t("well_but", { rest }) : t("all_well")}</h1>
        {worst ? (
          <p>
            {worst.kind === "rebuilding" && <UntilWhen one={worst} />}
            <Say it={worst.means} />
            {worst.since_ms !== null && ` ${t("since_when", { time: time(here(worst.since_ms)), ago: duration(Math.max(0, (now.value - here(worst.since_ms)) / 1000), true) })}`}
            {all.length > 1 && ` ${t("and_more", { n: all.length - 1 })}`}
          </p>
        ) : (
          <p>{arrays.value.length === 0 ? <Told text={t("no_array_means")} /> : served.length === 0 ? null : t("all_well_means", { arrays: served.length, drives: count })}</p>
        )}
        {pull.length > 0 && (
          <>
            {worst && (
              <p class="notable">
                <Sign name="notice" /> {to_pull}
              </p>
            )}
            <ul class="plain-list pull">
              {pull.map((one) => (
                <li key={one.path}>
                  <strong>{label(one)}</strong> <span class="path">{where_is(one.path, one.drive)}</span> <small class="soft">{t("dropped_at", { array: one.array, time: time(here(one.at_ms)) })}</small>
                </li>
              ))}
            </ul>
          </>
        )}
        {held.map((array) => (
          <Held key={array.name} array={array.name} />
        ))}
        {stopped.length > 0 && (
          <p class="notable">
            <Sign name="notice" /> {t("stopped_arrays", { n: stopped.length })}{" "}
            {stopped.map((array, index) => (
              <>
                {index > 0 && ", "}
                <a href={`#/arrays/${encodeURIComponent(array.name)}`}>{array.name}</a>
              </>
            ))}
          </p>
        )}
      </div>
    </header>
  );
}

/** True if scrubs and rebuilds were paused by command. A measurement holds them for a moment. */
export const is_held = ({ view }: ArrayEntry) => !!view && known_of(view) === "present" && view.paused && !view.measuring;

/** Scrubs and rebuilds of an array are held, and the way out. */
export function Held({ array }: { array: string }) {
  return (
    <div class="held">
      <p class="notable">
        <Sign name="notice" /> {t("tasks_held", { array })}
      </p>
      <Act onClick={() => open_plan({ action: "resume", array })}>
        {t("act_resume")}…<span class="hidden"> {array}</span>
      </Act>
    </div>
  );
}

/** The person who knows of what is wrong. It is as wrong as before. */
export const KnownBy = ({ known }: { known: Alarm["acknowledged"] }) =>
  known ? (
    <p class="notable">
      <Sign name="notice" /> {t("known_by", { by: by_words(known.by), time: time(here(known.at_s * 1000)) })}
      {known.note && ` ${t("known_note", { note: known.note })}`}
    </p>
  ) : null;

const RESTORES = new Set(["rebuild", "resync"]);

const task_of = (one: Case): Task | undefined => {
  const name = one.view?.name;
  return arrays.value.flatMap((array) => array.tasks).find((task) => task.array === name && RESTORES.has(task.kind));
};

/** Until when a rebuild runs: the first that a reader asks who would like to go home. */
function UntilWhen({ one }: { one: Case }) {
  const task = task_of(one);
  if (task?.kind !== "rebuild" || task.left_s === undefined || task.left_s === null) return null;
  return (
    <>
      <strong>{t("complete_at", { time: time(in_s(task.left_s)) })}</strong>{" "}
    </>
  );
}

function CaseBody({ one }: { one: Case }) {
  const { remedy, view } = one;
  const is_present = view !== null && known_of(view) === "present";
  const task = is_present ? task_of(one) : undefined;
  const todo = steps_of(one, drives.value);
  const free = free_of(one, drives.value);
  // While a new drive is filled, the failed one stays in; the steps name it.
  const is_rebuilding = one.kind === "rebuilding";
  const to_pull = is_rebuilding ? one.drives.filter((member) => role_of(member) === "failed") : [];
  return (
    <>
      <KnownBy known={one.acknowledged} />
      {task && <Progress task={task} />}
      <div class="case-body">
        {!view && <Why one={one} />}
        {view && (
          <section class="which">
            {(is_present || one.drives.length > 0) && <h3 class="hidden">{t(one.drives.length > 1 ? "the_drives" : "the_drive")}</h3>}
            <AsOf array={view} />
            <Bays array={view} about={one.drives.map((member) => member.path)} name={view.name} is_brief />
            {!is_rebuilding && <Marked one={one} />}
            {one.last.map((last) => (
              <Last key={last.slot} last={last} />
            ))}
            {is_present && one.drives.length === 0 && <Unknown one={one} />}
            {!FOLDS_REASON.has(one.kind) && <Why one={one} />}
          </section>
        )}
        <div class="do-dont">
          <section>
            <h3 class="hidden">{t("what_to_do")}</h3>
            <ol>
              {todo.map((say, index) => (
                <li key={index}>
                  <Say it={say} />
                </li>
              ))}
              {to_pull.map((member) => (
                <li key={member.path}>{t(is_file(member.path) ? "do_pull_after_file" : "do_pull_after", { drive: label(member), where: where_is(member.path, drive_of(member) ?? { seat: null, serial: member.serial ?? null }) })}</li>
              ))}
            </ol>
          </section>
          <section class="dont">
            <h3 class="hidden">{t("not_now")}</h3>
            <ul>
              {one.avoid.map((say, index) => (
                <li key={index}>
                  <Say it={say} />
                </li>
              ))}
            </ul>
          </section>
        </div>
      </div>
      <Details one={one} />
      {remedy && (
        <div class="buttons stay">
          {one.is_last && (
            <a class="button primary" href="#/drives">
              {t("look_at_the_drives")}
            </a>
          )}
          <Act primary={!one.is_last} onClick={() => open_plan(remedy, undefined, free?.path)}>
            {one.is_last ? t("repair_last") : free ? t(remedy.action === "replace" ? "plan_of_copy" : "plan_of_free", { drive: label(free) }) : t("plan_of", { action: action_word(remedy) })}
          </Act>
        </div>
      )}
    </>
  );
}

/** How a person finds the drives that a case is about. */
const Marked = ({ one }: { one: Case }) => (
  <>{one.drives.map((member) => (one.drives.length > 1 ? <Brief key={member.path} member={member} /> : <Identity key={member.path} member={member} />))}</>
);

/** Kinds of which the reason changes nothing of what is to be done: the steps of others name it. */
const FOLDS_REASON = new Set(["degraded", "rebuilding", "paused"]);

/** What the drive reports of itself, in the reader's language; null: the server's words are to be shown. */
function health_reason({ kind, drives: [member] }: Case): string | null {
  const is_of_health = kind === "DriveReplace" || kind === "DriveWatch";
  const findings = is_of_health ? drives.value?.find((drive) => drive.path === member?.path)?.health?.findings : undefined;
  const words = findings?.map(({ said }) => worded(said)) ?? [];
  return words.length > 0 && words.every((word) => word !== null) ? words.join(" ") : null;
}

function Why({ one }: { one: Case }) {
  if (!one.reason) return null;
  const said = worded(one.said);
  const words = health_reason(one) ?? (said && named(said, one.view ? drives_of(one.view) : one.drives));
  return (
    <p class="reason">
      <span class="soft">{t("reason")}</span> {words !== null ? <Told text={words} /> : <Said text={one.reason} said={null} />}
    </p>
  );
}

/** What need not be read before acting: since when, what else may fail, the reason, the drives as they are marked. */
function Details({ one }: { one: Case }) {
  const { view } = one;
  const is_present = view !== null && known_of(view) === "present";
  // Of a failed array the headline says it.
  const is_loss = is_present && view.health !== "failed" && (view.health !== "optimal" || one.severity === "critical");
  if (one.since_ms === null && !view) return null;
  return (
    <details class="more">
      <summary>{t("details")}</summary>
      <div class="case">
        {(one.since_ms !== null || is_loss) && (
          <dl class="facts">
            {one.since_ms !== null && (
              <div>
                <dt>{t("since")}</dt>
                <dd>
                  <When ms={one.since_ms} />
                  <small>
                    <Ago ms={one.since_ms} />
                  </small>
                </dd>
              </div>
            )}
            {view && is_loss && (
              <div>
                <dt>{t("more_failures")}</dt>
                <dd class={view.losses_survived === 0 ? "bad" : ""}>
                  {view.losses_survived}
                  <small>{view.losses_survived === 0 ? t("next_loses") : t("survives_n", { n: view.losses_survived })}</small>
                </dd>
              </div>
            )}
          </dl>
        )}
        {one.kind === "rebuilding" && <Marked one={one} />}
        {one.drives.length === 1 && one.drives.map((member) => <Marks key={member.path} member={member} />)}
        {FOLDS_REASON.has(one.kind) && <Why one={one} />}
        {one.kind === "rebuilding" && <p>{t("do_faster")}</p>}
        {view && (
          <p>
            <a href={`#/arrays/${encodeURIComponent(one.array)}`}>{t("see_array", { array: one.array })}</a>
          </p>
        )}
      </div>
    </details>
  );
}

/** The machine's drive with this member's path. Another drive may have the path since. */
const drive_of = (member: MemberView) => drives.value?.find((drive) => drive.path === member.path && (!drive.serial || !member.serial || drive.serial === member.serial));

const model_of = (member: MemberView) => [member.model ?? t(drive_of(member)?.kind === "file" ? "image_file" : "unknown"), member.size_bytes ? bytes(member.size_bytes) : null].filter(Boolean).join(", ");

/** One of several drives: in two lines, so that all of them are seen at once. */
function Brief({ member }: { member: MemberView }) {
  const { slot, serial } = member;
  const trouble = trouble_of(member);
  const place = place_of(drive_of(member)?.seat);
  return (
    <div class="identity brief">
      <p class="brief-head">
        <span>
          {t("slot")} <strong>{slot ?? "–"}</strong>
        </span>
        <span class="state">
          <Sign name={trouble ? "critical" : role_sign(role_of(member))} /> {trouble ? t(trouble) : role_word(role_of(member))}
        </span>
        <strong class={serial ? "mono" : "path"}>
          {serial && <span class="hidden">{t("serial")} </span>}
          {serial ?? label(member)}
        </strong>
      </p>
      <p class="soft path" title={member.path}>
        {[place, model_of(member), serial && label(member)].filter(Boolean).join(" · ")}
      </p>
    </div>
  );
}

/** How a person finds the drive: its place, and what stands on it. */
function Identity({ member }: { member: MemberView }) {
  const place = place_of(drive_of(member)?.seat);
  return (
    <dl class="identity">
      {place ? (
        <div>
          <dt>{t("place")}</dt>
          <dd class="big">{place}</dd>
        </div>
      ) : (
        <div>
          <dt>{t("slot_in_array")}</dt>
          <dd class="big">{member.slot ?? "–"}</dd>
        </div>
      )}
      <div>
        <dt>{t(member.serial ? "serial" : "drive")}</dt>
        <dd class={member.serial ? "big mono" : "big path"}>{member.serial ?? label(member)}</dd>
      </div>
    </dl>
  );
}

/** The rest of what is known of it. */
function Marks({ member }: { member: MemberView }) {
  return (
    <dl class="identity">
      <div>
        <dt>{t("slot_in_array")}</dt>
        <dd>{member.slot ?? "–"}</dd>
      </div>
      <div>
        <dt>{t("model")}</dt>
        <dd>{model_of(member)}</dd>
      </div>
      <div>
        <dt>{t("path")}</dt>
        <dd class="path">{member.path}</dd>
      </div>
    </dl>
  );
}

/** The drive that an empty slot had last: whether it is still in the machine, and how to find it. */
function Last({ last }: { last: LastDrive }) {
  const drive = drives.value?.find((drive) => drive.path === last.path);
  // A drive that is free or works for somebody is another one in the same place.
  const is_inside = inside.value.some((one) => one.path === last.path);
  const serial = last.serial ?? (is_inside ? drive?.serial : null);
  const place = (is_inside && place_of(drive?.seat)) || null;
  return (
    <div class="identity brief">
      <p class="brief-head">
        <span>
          {t("slot")} <strong>{last.slot}</strong>
        </span>
        <span class="state">
          <Sign name="critical" /> {t("last_here")}
        </span>
        <strong class={serial ? "mono" : "path"}>{serial ?? label(last)}</strong>
      </p>
      <p class="soft path">
        {place ? `${place} · ` : last.place && <span lang="en">{last.place} · </span>}
        {last.path}
      </p>
      <p class={is_inside ? "notable" : "soft"}>
        {last.failed_ms !== null && t("failed_at", { time: time(here(last.failed_ms)) })} {t(!is_inside ? "not_in_here" : is_file(last.path) ? "take_it_out_file" : "take_it_out")}
      </p>
    </div>
  );
}

/** After a restart nothing is known of a lost drive but its slot: then the drives that work show which one it is not. */
function Unknown({ one }: { one: Case }) {
  const working = one.view ? drives_of(one.view).filter((member) => role_of(member) !== "failed" && role_of(member) !== "lost") : [];
  const slots = one.unknown;
  if (slots.length === 0) return null;
  return (
    <>
      <p>{t("lost_unknown", { slots: slots.join(", "), n: slots.length })}</p>
      <ul class="serials">
        {working.map((member) => (
          <li key={member.path}>
            <span class="mono">{member.serial ?? member.path}</span>
          </li>
        ))}
      </ul>
    </>
  );
}

export function JobLine({ job }: { job: Job }) {
  const after = outlived(job);
  return (
    <div class="job">
      <p>
        {job.state === "failed" && (after ? <Pill state="notice">{t("job_was_cut")}</Pill> : <Pill state="critical">{t("job_has_failed")}</Pill>)} {job.state === "cancelled" && <Pill state="notice">{t("job_was_cancelled")}</Pill>} <Said text={job.title} said={job.said} />
      </p>
      <p class="soft">
        {t("job_by", { name: by_words(job.by), time: time(here(job.started_ms)) })} {after ? after.text : <JobText job={job} />}
      </p>
      {job.task && job.state === "running" && <Progress task={job.task} />}
      <CancelJob job={job} />
    </div>
  );
}

/** Why what is well is well, array by array. */
function Reasons({ served }: { served: ArrayEntry[] }) {
  return (
    <section class="reasons">
      <h2>{t("how_it_stands")}</h2>
      <ul class="cards">
        {served.map((array) => (
          <Reason key={array.name} entry={array} />
        ))}
      </ul>
      <ToldBy />
    </section>
  );
}

/** Who learns of a fault while this page is not looked at. */
function ToldBy() {
  const told_by = state.value?.summary.told_by ?? [];
  const names = told_by.map(channel_word).join(", ");
  return (
    <ul class="ticks">
      {told_by.length > 0 && (
        <li>
          <Sign name="good" /> {t("told_by", { channels: names })}
        </li>
      )}
      <li>
        <Sign name="notice" /> {t("no_backup")}
      </li>
    </ul>
  );
}

/** `spare_for`: an array to which a spare may be added. */
type Line = { sign: "good" | "warning" | "critical" | "notice"; text: string; spare_for?: ArrayView };

/** The last scrub of an array and its spans: the oldest end, the worst finding. `null`: one of them has none on record. */
function scrub_line(view: ArrayView): Line | null {
  const ends = family(view)
    .filter((part) => part.spans.length === 0)
    .map((part) => {
      const kept = (part as ArrayView & Scrubs).last_scrub;
      if (kept) return { ...kept, ended_ms: kept.ended_s * 1000 };
      const event = events.value.findLast(({ array, kind, sweep }) => array === part.name && kind === "sweep_finished" && (sweep === "scrub" || sweep === "repair"));
      return event && { ended_ms: event.time_ms, mismatch_sectors: event.mismatch_sectors ?? 0, unchecked_sectors: event.unchecked_sectors ?? 0, repaired: event.sweep === "repair" };
    });
  const known = ends.flatMap((end) => end ?? []);
  if (known.length < ends.length) return null;
  const time_of_end = { time: time(here(Math.min(...known.map((end) => end.ended_ms)))) };
  if (known.some((end) => end.mismatch_sectors > 0 && !end.repaired)) return { sign: "warning", text: t("reason_scrub_bad", time_of_end) };
  if (known.some((end) => end.unchecked_sectors > 0)) return { sign: "notice", text: t("reason_scrub_unchecked", time_of_end) };
  return { sign: "good", text: t("reason_scrub", time_of_end) };
}

function lines(entry: ArrayEntry): Line[] {
  const view = entry.view;
  if (!view) return [];
  const members = drives_of(view);
  const list: Line[] = [];
  const whole = view.health === "optimal";
  const in_sync = members.filter((member) => role_of(member) === "in sync").length;
  // What hangs or is full has not failed, and yet holds clients up.
  const silent = members.filter(is_silent).length;
  const full = members.filter((member) => trouble_of(member) === "is_full").length;
  if (silent > 0) list.push({ sign: "critical", text: t("reason_silent", { n: silent }) });
  if (full > 0) list.push({ sign: "critical", text: t("reason_full", { n: full }) });
  const deleted = members.filter((member) => trouble_of(member) === "is_deleted").length;
  if (deleted > 0) list.push({ sign: "critical", text: t("reason_deleted", { n: deleted }) });
  list.push({ sign: whole ? "good" : "critical", text: whole ? t("reason_complete", { n: in_sync }) : t("reason_incomplete", { n: in_sync }) });
  const is_bare = view.level === "0" || view.level === "jbod";
  list.push({ sign: view.health === "failed" ? "critical" : view.losses_survived > 0 ? "good" : is_bare ? "notice" : "critical", text: survival(view) });
  const spares = family(view).flatMap(spares_of).length;
  if (!is_bare) list.push(spares > 0 ? { sign: "good", text: t("reason_spares", { n: spares }) } : { sign: "notice", text: t("reason_no_spare"), ...(whole && { spare_for: view }) });
  const scrub = scrub_line(view);
  if (scrub) list.push(scrub);
  else if (!is_bare && events_known.value) list.push({ sign: "notice", text: t("reason_no_scrub") });
  const { next_scrub_s } = view as ArrayView & Scrubs;
  // A date would be a promise that a pause breaks.
  if (is_held(entry)) list.push({ sign: "notice", text: t("reason_held") });
  else if (next_scrub_s) list.push({ sign: "notice", text: t("reason_next_scrub", { time: time(here(next_scrub_s * 1000)) }) });
  const worn = (drives.value ?? []).filter((drive) => members.some((member) => member.path === drive.path)).flatMap((drive) => drive.health?.wear_percent ?? []);
  if (worn.length > 0) list.push({ sign: Math.max(...worn) >= 80 ? "warning" : "good", text: t("reason_wear", { percent: percent(Math.max(...worn) / 100) }) });
  return list;
}

/** The way to a spare: the drive of this machine that fits, else the one to buy. */
function AddSpare({ view }: { view: ArrayView }) {
  // While an array lacks a drive, the free one is for that.
  if (!drives.value || found.value.some((one) => one.severity === "critical")) return null;
  const free = free_drive(view, drives.value);
  if (!free) return <> {t("spare_to_buy", { size: to_buy(least_bytes(view)) })}</>;
  // A spare of an array with spans belongs to one of them: the reader chooses on the array's page.
  const action = { action: "add", array: view.name, drive: "", span: null } as const;
  return (
    <>
      {" "}
      {view.spans.length > 0 ? (
        <a href={`#/arrays/${encodeURIComponent(view.name)}`}>{t("see_array", { array: view.name })}</a>
      ) : (
        <span class="inline-act">
          <Act onClick={() => open_plan(action, undefined, free.path)}>
            {t("add_as_spare", { drive: label(free) })}…<span class="hidden"> {view.name}</span>
          </Act>
        </span>
      )}
    </>
  );
}

function Reason({ entry }: { entry: ArrayEntry }) {
  const view = entry.view;
  if (!view) return null;
  const known = known_of(view);
  return (
    <li class="card small">
      <h3>
        <a href={`#/arrays/${encodeURIComponent(entry.name)}`}>{entry.name}</a>
        <span class="soft">
          {known !== "nothing" && ` ${t("raid", { level: view.level.toUpperCase() })}, ${bytes(view.size_bytes)}`}
        </span>
      </h3>
      <AsOf array={view} />
      {known !== "nothing" && (
        <ul class="ticks">
          {lines(entry).map((line) => (
            <li key={line.text}>
              <Sign name={known === "past" ? "notice" : line.sign} />
              <span>
                {line.text}
                {line.spare_for && known === "present" && <AddSpare view={line.spare_for} />}
              </span>
            </li>
          ))}
        </ul>
      )}
      {entry.rates && known === "present" && (
        <Spark values={history(entry.name).map((sample) => sample.read + sample.written)} label={t("spark_both")} />
      )}
      {entry.rates && known === "present" && (
        <Rates read={entry.rates.total.read_bytes_per_s} written={entry.rates.total.written_bytes_per_s} />
      )}
    </li>
  );
}
