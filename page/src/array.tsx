// The list of arrays, and one array: what it does now beside what its members do, its members, its tasks, and its actions.
import { useRef, useState } from "preact/hooks";
import { drives_of, family, known_of, label, needs_reader } from "./cases.ts";
import { ArraySettings } from "./change.tsx";
import { Foreign } from "./foreign.tsx";
import { bytes, count, decimal, duration, level_name, listed, micros, now, percent, rate, time, with_unit } from "./format.ts";
import { type Sample, array_of, arrays, drives, here, history, member_key, peak } from "./live.ts";
import { Held, found, is_held } from "./first.tsx";
import { type Fault, Act, AsOf, Bays, Pill, Progress, Rates, Refused, Sign, Spark, Told, is_drive, is_silent, role_of, role_sign, role_word, survival, sweep_word, trouble_of, useLoaded, useDone } from "./parts.tsx";
import { open_plan } from "./plan.tsx";
import { Said, by_words } from "./said.tsx";
import * as server from "./server.ts";
import type { ArrayEntry, ArrayView, Job, MemberLimit, MemberRate, MemberView, SweepPrice } from "./types.ts";
import { type Key, t } from "./words.ts";

export function health_pill(entry: ArrayEntry) {
  const worst = found.value.find((one) => one.array === entry.name);
  if (!entry.view) {
    const key: Key = entry.state === "stopped" ? "stopped" : "not_served";
    return <Pill state={entry.state === "stopped" ? "notice" : "critical"}>{t(key)}</Pill>;
  }
  if (known_of(entry.view) !== "present") return <Pill state="critical">{t("does_not_answer")}</Pill>;
  const { health } = entry.view;
  // As urgent as the first screen says it is.
  if (health !== "optimal") return <Pill state={health === "failed" || entry.view.losses_survived === 0 ? "critical" : (worst?.severity ?? "warning")}>{t(health)}</Pill>;
  return <Pill state={worst?.severity ?? "good"}>{t(worst && worst.severity !== "notice" ? "needs_look" : "optimal")}</Pill>;
}

export function Arrays() {
  return (
    <>
      <header class="page-head">
        <h1>{t("nav_arrays")}</h1>
        <a class="button primary" href="#/create">
          {t("create_array")}
        </a>
      </header>
      {arrays.value.length === 0 && (
        <p>
          <Told text={t("no_array_means")} />
        </p>
      )}
      <ul class="cards wide">
        {arrays.value.map((entry) => (
          <li key={entry.name} class="card small">
            <h2>
              <a href={`#/arrays/${encodeURIComponent(entry.name)}`}>{entry.name}</a> {health_pill(entry)}
            </h2>
            {entry.view ? (
              <>
                {known_of(entry.view) !== "nothing" && (
                  <p class="soft">
                    {level_name(entry.view.level)} · {bytes(entry.view.size_bytes)} · {t("n_drives", { n: drives_of(entry.view).length })}
                  </p>
                )}
                <AsOf array={entry.view} />
                <Bays array={entry.view} name={entry.name} />
                {known_of(entry.view) === "present" && (
                  <>
                    <Rates read={entry.rates?.total.read_bytes_per_s ?? 0} written={entry.rates?.total.written_bytes_per_s ?? 0} />
                    {entry.tasks.map((task) => (
                      <Progress key={task.kind + task.array} task={task} />
                    ))}
                  </>
                )}
              </>
            ) : (
              <WhyNot entry={entry} />
            )}
          </li>
        ))}
      </ul>
      <Foreign />
    </>
  );
}

export function ArrayPage({ name }: { name: string }) {
  const entry = array_of(name);
  if (!entry)
    return (
      <>
        <header class="page-head">
          <h1>{name}</h1>
        </header>
        <p>{t("no_such_array", { array: name })}</p>
      </>
    );
  const { view } = entry;
  return (
    <>
      <header class="page-head">
        <div>
          <h1>
            {name} {health_pill(entry)}
          </h1>
          {view && known_of(view) !== "nothing" && (
            <p class="soft">
              {level_name(view.level)} · {bytes(view.size_bytes)} · {survival(view)}
            </p>
          )}
        </div>
      </header>
      {view ? (
        <Served entry={entry} view={view} />
      ) : (
        <>
          <Wrong array={name} />
          <NotServed entry={entry} />
          <ArraySettings array={name} view={null} />
        </>
      )}
    </>
  );
}

/** Why an array is not served. */
const WhyNot = ({ entry }: { entry: ArrayEntry }) => (
  <p>
    <Said text={entry.text} said={entry.said} />
  </p>
);

function NotServed({ entry }: { entry: ArrayEntry }) {
  const array = entry.name;
  const [name, set_name] = useState("");
  return (
    <section class="card">
      {entry.state === "stopped" ? (
        <p>{t("stopped_here")}</p>
      ) : (
        <WhyNot entry={entry} />
      )}
      {entry.drives.length > 0 && <p class="soft">{t("drives_here", { drives: entry.drives.join(", ") })}</p>}
      <div class="buttons">
        {entry.obstacle !== "too_few" && (
          <Act primary onClick={() => open_plan({ action: "start", array, force: false })}>
            {t("act_start")}…
          </Act>
        )}
        <Act role="admin" onClick={() => open_plan({ action: "release", array })}>
          {t("act_release")}…
        </Act>
        <Act role="admin" danger onClick={() => open_plan({ action: "destroy", array })}>
          {t("act_destroy")}…
        </Act>
      </div>
      <form class="rename" onSubmit={(event) => (event.preventDefault(), name !== "" && open_plan({ action: "rename", array, name }))}>
        <label>
          {t("new_name")}
          <input value={name} onInput={(event) => set_name(event.currentTarget.value)} autocomplete="off" spellcheck={false} />
        </label>
        <Act role="admin" busy={name === ""} onClick={() => open_plan({ action: "rename", array, name })}>
          {t("act_rename")}…
        </Act>
      </form>
    </section>
  );
}

/** The way to what is to be done. */
function Wrong({ array }: { array: string }) {
  const own = found.value.filter((one) => one.array === array && one.severity !== "notice");
  if (own.length === 0) return null;
  // A rebuild needs nobody.
  const waits = !own.some(needs_reader);
  return (
    <p class={`banner ${own[0]?.severity}`}>
      <Sign name={own[0]?.severity ?? "critical"} /> <a href="#/">{waits ? t("rebuilding_here") : t("wrong_here", { n: own.filter(needs_reader).length })}</a>
    </p>
  );
}

function Served({ entry, view }: { entry: ArrayEntry; view: ArrayView }) {
  return (
    <>
      <Wrong array={entry.name} />
      {is_held(entry) && <Held array={entry.name} />}
      <section class="card">
        <AsOf array={view} />
        <Bays array={view} name={entry.name} />
      </section>
      {known_of(view) === "present" && <Roofline entry={entry} view={view} />}
      {known_of(view) !== "nothing" && <Members entry={entry} view={view} />}
      {known_of(view) === "present" && <Tasks entry={entry} view={view} />}
      <Clients view={view} />
      <Details view={view} />
      <ArraySettings array={entry.name} view={view} />
      <Actions entry={entry} view={view} />
    </>
  );
}

/** How many requests a member has under way on average, by Little's law: the member with the most of them holds the others up. */
function load(member: MemberView, reads_per_s: number, writes_per_s: number): number {
  return (reads_per_s * (member.read_latency?.median_us ?? 0) + writes_per_s * (member.write_latency?.median_us ?? 0)) / 1e6;
}

/** The share of what a member could do that it does now. A request takes the time that its size, or its mere number, takes at full speed. */
export function used(limit: MemberLimit | undefined, now: MemberRate | undefined): number | null {
  if (!limit || limit.error || !now || limit.reads_per_s <= 0 || limit.read_bytes_per_s <= 0) return null;
  const time = (count: number, bytes: number) => (count <= 0 ? 0 : Math.max(count / limit.reads_per_s, bytes / limit.read_bytes_per_s));
  return time(now.reads_per_s, now.read_bytes_per_s) + time(now.writes_per_s, now.written_bytes_per_s);
}

/** Seconds over which the roof is averaged: one second alone jumps. */
const OVER_S = 5;

/** What the array does now, beside what its members could do. */
function Roofline({ entry, view }: { entry: ArrayEntry; view: ArrayView }) {
  const { rates } = entry;
  const known = useLoaded(() => server.limits(entry.name), [entry.name]);
  const [busy, set_busy] = useState(false);
  const [error, set_error] = useState<Fault | null>(null);
  const members = family(view).flatMap((part) => by_slot(part.members.filter(is_drive))).filter((member) => !["failed", "lost", "spare"].includes(role_of(member)));
  const past = history(entry.name);
  if (!rates) return null;
  const silent = members.filter(is_silent);
  const limits = known.value?.limits ?? null;
  const measure = async () => {
    set_busy(true);
    set_error(null);
    try {
      await server.measure_limits(entry.name);
      known.reload();
    } catch (reason) {
      set_error(reason as Fault);
    }
    set_busy(false);
  };
  const rows = members.map((member) => {
    const now = rates.members.find((one) => one.path === member.path);
    const limit = limits?.members.find((one) => one.path === member.path);
    const done = (now?.read_bytes_per_s ?? 0) + (now?.written_bytes_per_s ?? 0);
    const wrote = Math.max(peak(member_key(entry.name, member.path)), now?.written_bytes_per_s ?? 0);
    return { member, now, limit, done, wrote, load: load(member, now?.reads_per_s ?? 0, now?.writes_per_s ?? 0), used: used(limit, now) };
  });
  const is_known = rows.some((row) => row.used !== null);
  const written = rows.reduce((sum, row) => sum + (row.now?.written_bytes_per_s ?? 0), 0);
  const weight = (row: (typeof rows)[number]) => (is_known ? (row.used ?? 0) : row.load);
  const busiest = rows.reduce<(typeof rows)[number] | null>((most, row) => (weight(row) > (most ? weight(most) : is_known ? 0.02 : 0.05) ? row : most), null);
  const price = rates.total.written_bytes_per_s > 1e5 ? written / rates.total.written_bytes_per_s : null;
  // A lane that polls is always busy, which says nothing.
  const lanes = view.lanes.map(({ polls }, index) => ({ number: index + 1, polls, share: rates.lanes[index] ?? 0 }));
  const lane = lanes.reduce<(typeof lanes)[number] | null>((most, one) => (!one.polls && one.share > (most?.share ?? (is_known ? 0.02 : 0.8)) ? one : most), null);
  const limiting_lane = lane && (!is_known || lane.share > (busiest?.used ?? 0)) ? lane : null;
  // At the present mix of requests the array could do so many times what it does now.
  const most_used = limiting_lane?.share ?? (is_known ? busiest?.used : null);
  const factor = most_used ? 1 / Math.min(1, most_used) : null;
  // A rough figure: the members are not equally busy all the time.
  const times = (factor ?? 1) >= 3 ? Math.round(factor ?? 1) : Math.round((factor ?? 1) * 10) / 10;
  const lately = past.slice(-OVER_S);
  const mean = (of: (sample: Sample) => number) => (lately.length === 0 ? 0 : lately.reduce((sum, sample) => sum + of(sample), 0) / lately.length);
  const requests_per_s = mean((sample) => sample.requests);
  const mean_us = requests_per_s >= 1 ? (mean((sample) => sample.under_way) / requests_per_s) * 1e6 : null;
  const alone_us = Math.max(0, ...rows.map((row) => row.limit?.read_us ?? 0));
  const line = (of: (sample: Sample) => number) => past.map(of);
  const roof = (now: number) => (factor !== null && now > 0 ? now * factor : null);
  const [read_roof, write_roof] = [roof(rates.total.read_bytes_per_s), roof(rates.total.written_bytes_per_s)];
  return (
    <section class="card">
      <h2>{t("now_title")}</h2>
      <div class="two">
        <figure>
          <figcaption>
            {t("reads")} <strong class="figure">{rate(rates.total.read_bytes_per_s)}</strong>
            {read_roof !== null && <span class="soft"> {t("of_roof", { rate: rate(read_roof) })}</span>}
          </figcaption>
          <Spark values={line((sample) => sample.read)} roof={read_roof} label={t("spark_reads", { rate: rate(rates.total.read_bytes_per_s) })} />
        </figure>
        <figure>
          <figcaption>
            {t("writes")} <strong class="figure">{rate(rates.total.written_bytes_per_s)}</strong>
            {write_roof !== null && <span class="soft"> {t("of_roof", { rate: rate(write_roof) })}</span>}
          </figcaption>
          <Spark values={line((sample) => sample.written)} roof={write_roof} label={t("spark_writes", { rate: rate(rates.total.written_bytes_per_s) })} />
        </figure>
      </div>
      <p class="soft">
        {t("requests_now", { n: count(Math.round(rates.total.requests_per_s)), waiting: count(Math.round(rates.total.in_flight)) })}
        {mean_us !== null && ` ${t("mean_now", { time: micros(mean_us) })}`}
        {mean_us !== null && alone_us > 0 && ` ${t("alone", { time: micros(alone_us) })}`}
        {price !== null && ` ${t("price", { n: decimal(price) })}`}
      </p>
      <h3>{t("members_now")}</h3>
      <p class={is_known ? "" : "soft"}>
        {silent.length > 0
          ? t("limits_silent", { names: listed(silent.map(label)) })
          : limiting_lane
          ? t("limits_lane", { n: limiting_lane.number, percent: percent(Math.min(1, limiting_lane.share)), times })
          : !busiest
            ? t("limits_none")
            : is_known
              ? t("limits_known", { drive: label(busiest.member), percent: percent(Math.min(1, busiest.used ?? 0)), times })
              : t("limits", { drive: label(busiest.member), n: decimal(busiest.load) })}
      </p>
      <ul class={is_known ? "roof" : "roof bare"}>
        {rows.map(({ member, done, wrote, load, limit, used }) => (
          <li key={member.path} class={!limiting_lane && member === busiest?.member ? "marked" : ""}>
            <span class="roof-name">{label(member)}</span>
            {/* A bar needs a full length: of a member that was not measured none is known. */}
            {used !== null ? (
              <svg class="roof-bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
                <rect class="roof-now" width={Math.min(1, used) * 100} height="8" />
              </svg>
            ) : (
              is_known && <span />
            )}
            <span class="roof-words">
              {used !== null && <strong>{percent(Math.min(1, used))} </strong>}
              {rate(done)} <span class="soft">{limit && !limit.error ? t("of_best", { best: rate(limit.read_bytes_per_s) }) : limit?.error ? <span lang="en">{limit.error}</span> : t("not_measured")}{is_known && wrote > 0 && ` · ${t("written_most", { rate: rate(wrote) })}`}</span>
            </span>
            <span class="roof-load soft">
              {limit && !limit.error
                ? t("time_now_alone", { now: member.read_latency ? micros(member.read_latency.median_us) : "–", alone: micros(limit.read_us) })
                : load > 0.05 && t("under_way", { n: decimal(load) })}
            </span>
          </li>
        ))}
      </ul>
      <p class="soft">{t("lanes_now", { shares: lanes.map(({ polls, share }) => (polls ? t("lane_polls") : percent(share))).join(", ") })}</p>
      {limits && limits.members.length > 1 && (
        <p class="soft">{t("together", { all: rate(limits.together_bytes_per_s), sum: rate(limits.members.reduce((sum, one) => sum + one.read_bytes_per_s, 0)) })}</p>
      )}
      <p class="note">
        {limits ? t("roof_measured", { time: time(here(limits.at_ms)) }) : t("roof_note")}
      </p>
      <div class="buttons">
        <Act busy={busy} onClick={measure}>
          {t(busy ? "measuring" : limits ? "measure_again" : "measure_members")}
        </Act>
        <span class="soft" role="status">
          {t(busy ? "measuring_long" : "measure_costs")}
        </span>
      </div>
      <Refused error={error} />
    </section>
  );
}

const median = (values: number[]) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;

function Members({ entry, view }: { entry: ArrayEntry; view: ArrayView }) {
  const array = entry.name;
  return (
    <section class="card">
      <h2>{t("members")}</h2>
      {family(view)
        .filter((part) => part.members.some((member) => member.direct !== null && member.direct !== undefined))
        .map((part) => (
          <div key={part.name}>
            {part.name !== array && <h3>{part.name}</h3>}
            <MemberTable array={array} part={part} entry={entry} name={part.name === array ? t("members") : `${t("members")}: ${part.name}`} />
          </div>
        ))}
    </section>
  );
}

/** The server lists members as they came; people look for a slot. What has left its slot comes last. */
const by_slot = (members: MemberView[]) => {
  const place = (member: MemberView) => (role_of(member) === "failed" ? 1e6 : (member.slot ?? 1e5));
  return [...members].sort((a, b) => place(a) - place(b));
};


/** The server asks drives every five minutes. */
const OLD_MS = 11 * 60_000;

function MemberTable({ array, part, entry, name }: { array: string; part: ArrayView; entry: ArrayEntry; name: string }) {
  const typical = median(part.members.flatMap((member) => member.read_latency?.median_us ?? []));
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={name}>
      <table class="stacks broad">
        <thead>
          <tr>
            <th scope="col">{t("slot")}</th>
            <th scope="col">{t("drive")}</th>
            <th scope="col">{t("state")}</th>
            <th scope="col">{t("drive_health")}</th>
            <th scope="col" class="number">
              {t("wear")}
            </th>
            <th scope="col" class="number">
              {t("temperature")}
            </th>
            <th scope="col" class="number">
              {t("read_latency")}
            </th>
            <th scope="col" class="number">
              {t("write_latency")}
            </th>
            <th scope="col" class="number">
              {t("errors")}
            </th>
            <th scope="col">
              <span class="hidden">{t("actions")}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {part.missing_slots
            .filter((slot) => !part.members.some((member) => member.slot === slot))
            .map((slot) => (
              <tr key={`missing ${slot}`}>
                <td class="number" data-label={t("slot")}>{slot}</td>
                <th scope="row">{t("no_drive_here")}</th>
                <td data-label={t("state")} colSpan={8}>
                  <span class="state bad">
                    <Sign name="missing" /> {t("missing")}
                  </span>
                </td>
              </tr>
            ))}
          {by_slot(part.members).map((member) => {
            const page = drives.value?.find((drive) => drive.path === member.path);
            const report = page?.health;
            const slow = entry.slow.find((one) => one.path === member.path);
            const role = role_of(member);
            const trouble = trouble_of(member);
            const works = role !== "failed" && role !== "lost";
            return (
              <tr key={member.path}>
                <td class="number" data-label={t("slot")}>{member.slot ?? "–"}</td>
                <th scope="row">
                  <span class="path">{member.path}</span>
                  <small>{[member.model, member.serial].filter(Boolean).join(" · ")}</small>
                </th>
                <td data-label={t("state")}>
                  <span class={`state ${role.replace(" ", "-")}`}>
                    <Sign name={trouble ? "critical" : role_sign(role)} /> {trouble ? t(trouble) : role_word(role)}
                  </span>
                  {member.failure && <small><Said text={member.failure} said={member.failure_said} /></small>}
                  {is_silent(member) && works && (
                    <small class="bad">
                      {t("silent_for", { time: duration((member.waiting_ms ?? 0) / 1000, true) })} {member.needed && t("needed_here")}
                    </small>
                  )}
                </td>
                <td data-label={t("drive_health")}>
                  {report && !works && report.verdict === "good" ? <small class="long">{t("healthy_yet_failed")}</small> : report ? <Pill state={report.verdict === "good" ? "good" : report.verdict === "watch" ? "warning" : "critical"}>{t(`verdict_${report.verdict}`)}</Pill> : <span class="soft">{t("unknown")}</span>}
                  {report?.findings.map((finding) => (
                    <small key={finding.sentence}>
                      <Said text={finding.sentence} said={finding.said} />
                    </small>
                  ))}
                  {page?.health_read_at_s && now.value - here(page.health_read_at_s * 1000) > OLD_MS && (
                    <small class="notable">{t("asked_at", { time: time(here(page.health_read_at_s * 1000)) })}</small>
                  )}
                </td>
                <td class="number" data-label={t("wear")}>{report?.wear_percent === null || report?.wear_percent === undefined ? "–" : percent(report.wear_percent / 100)}</td>
                <td class="number" data-label={t("temperature")}>{report?.temperature_c === null || report?.temperature_c === undefined ? "–" : with_unit(report.temperature_c, "°C")}</td>
                <td class={`number${slow ? " bad" : ""}`} data-label={t("read_latency")}>
                  {member.read_latency ? micros(member.read_latency.median_us) : "–"}
                  {member.read_latency && <small>{t("p99", { time: micros(member.read_latency.p99_us) })}</small>}
                  {slow && <small class="bad">{t("slow_by", { n: Math.round(slow.own_us / Math.max(1, slow.others_us || typical)) })}</small>}
                </td>
                <td class="number" data-label={t("write_latency")}>
                  {member.write_latency ? micros(member.write_latency.median_us) : "–"}
                  {member.write_latency && <small>{t("p99", { time: micros(member.write_latency.p99_us) })}</small>}
                </td>
                <td class={`number${member.read_errors > 0 ? " notable" : ""}`} data-label={t("errors")}>{count(member.read_errors)}</td>
                <td class="row-actions">
                  {role === "in sync" && (
                    <Act onClick={() => open_plan({ action: "replace", array, old: member.path, new: "" })}>
                      {t("act_replace")}…<span class="hidden"> {member.path}</span>
                    </Act>
                  )}
                  {is_silent(member) && works && !member.needed && (
                    <Act danger onClick={() => open_plan({ action: "fail", array, drive: member.path })}>
                      {t("act_fail")}…<span class="hidden"> {member.path}</span>
                    </Act>
                  )}
                  {(role === "failed" || role === "spare") && (
                    <Act onClick={() => open_plan({ action: "remove", array, drive: member.path })}>
                      {t("act_remove")}…<span class="hidden"> {member.path}</span>
                    </Act>
                  )}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

/** Sliders step through powers of two from 1 MiB/s to 8 GiB/s; the last step is no bound. A slider that was not moved changes nothing. */
const STEPS = 14;
/** What the API takes for no bound. */
const NO_BOUND = 0;
const speed_of = (step: number) => (1 << 20) * 2 ** step;
const step_of = (bytes: number) => Math.min(STEPS, Math.max(0, Math.round(Math.log2(bytes / (1 << 20)))));
/** The lower bound that sweeps have before another one is set. */
const LEAST = 20 << 20;

function Tasks({ entry, view }: { entry: ArrayEntry; view: ArrayView }) {
  const array = entry.name;
  const [least, set_least] = useState<number | null>(null);
  const [most, set_most] = useState<number | null>(null);
  const [error, set_error] = useState<Fault | null>(null);
  // What was ordered, told beside the button that ordered it.
  const [said, set_said] = useState<{ bounds: boolean; job: Job } | null>(null);
  // A slider that was moved again since the order keeps its place.
  const ordered = useRef({ least, most });
  useDone("speed", array, () => {
    set_least((now) => (now === ordered.current.least ? null : now));
    set_most((now) => (now === ordered.current.most ? null : now));
  });
  const act = async (action: Parameters<typeof server.act>[0]) => {
    set_error(null);
    set_said(null);
    try {
      set_said({ bounds: action.action === "speed", job: await server.act(action) });
    } catch (reason) {
      set_error(reason as Fault);
    }
  };
  const scrubs = entry.tasks.some((task) => task.kind === "scrub" || task.kind === "repair");
  const set = { least: view.speed?.min_bytes_per_s ?? LEAST, most: view.speed?.max_bytes_per_s ?? Infinity };
  const words = (bytes: number) => (bytes >= speed_of(STEPS) ? t("no_bound") : rate(bytes));
  const apply = () => {
    ordered.current = { least, most };
    return act({ action: "speed", array, min_bytes_per_s: least === null ? null : speed_of(least), max_bytes_per_s: most === null ? null : most >= STEPS ? NO_BOUND : speed_of(most), latency: null });
  };
  return (
    <section class="card">
      <h2>{t("tasks")}</h2>
      {entry.tasks.length === 0 && <p class="soft">{t("no_task")}</p>}
      {entry.tasks.map((task) => (
        <Progress key={task.array + task.kind} task={task} />
      ))}
      <div class="buttons">
        {scrubs ? (
          <Act onClick={() => act({ action: "cancel_scrub", array })}>{t("act_cancel_scrub")}</Act>
        ) : (
          <Act onClick={() => open_plan({ action: "scrub", array, repair: false, from_bytes: 0 })}>{t("act_scrub")}…</Act>
        )}
        {view.paused ? <Act onClick={() => act({ action: "resume", array })}>{t("act_resume")}</Act> : <Act onClick={() => act({ action: "pause", array })}>{t("act_pause")}</Act>}
      </div>
      <p role="status">
        {said && !said.bounds && <Said text={said.job.title} said={said.job.said} />}
      </p>
      <Price entry={entry} is_paused={view.paused} />
      <fieldset class="bounds">
        <legend>{t("bounds")}</legend>
        <label>
          <span>{t("bound_least")}</span>
          <input type="range" min={0} max={STEPS - 1} value={least ?? step_of(set.least)} onInput={(event) => set_least(Number(event.currentTarget.value))} aria-valuetext={words(least === null ? set.least : speed_of(least))} />
          <output>{words(least === null ? set.least : speed_of(least))}</output>
        </label>
        <label>
          <span>{t("bound_most")}</span>
          <input type="range" min={0} max={STEPS} value={most ?? step_of(set.most)} onInput={(event) => set_most(Number(event.currentTarget.value))} aria-valuetext={words(most === null ? set.most : speed_of(most))} />
          <output>{words(most === null ? set.most : speed_of(most))}</output>
        </label>
        <Act onClick={apply} busy={least === null && most === null}>
          {t("apply")}
        </Act>
      </fieldset>
      <Refused error={error} />
      <p role="status">
        {said?.bounds && <Said text={said.job.title} said={said.job.said} />}
      </p>
    </section>
  );
}

/** What a running sweep costs clients: it is held for some seconds, and clients' work compared. */
function Price({ entry, is_paused }: { entry: ArrayEntry; is_paused: boolean }) {
  const [found, set_found] = useState<SweepPrice | null>(null);
  const [error, set_error] = useState<Fault | null>(null);
  const [busy, set_busy] = useState(false);
  const measure = async () => {
    set_busy(true);
    set_error(null);
    try {
      set_found(await server.measure_price(entry.name));
    } catch (reason) {
      set_error(reason as Fault);
    }
    set_busy(false);
  };
  const lost = found && found.held.requests_per_s > 0 ? 1 - found.running.requests_per_s / found.held.requests_per_s : null;
  const held = entry.tasks.find((task) => task.held_bytes_per_s)?.held_bytes_per_s;
  const times = found ? [found.held.mean_us, found.running.mean_us] : [];
  // The sweep is held while it is measured: what was asked and found stays.
  const runs = entry.tasks.length > 0 && !is_paused;
  if (!runs && !busy && !found && !error) return null;
  return (
    <div class="price">
      <h3>{t("price_title")}</h3>
      {held && <p class="soft">{t("held_to", { rate: rate(held) })}</p>}
      {found && (
        <>
          <p>
            {lost === null ? t("price_unknown") : lost > Math.max(0.02, found.noise) ? t("price_is", { percent: percent(lost), task: sweep_word(found.kind) }) : t("price_none", { task: sweep_word(found.kind) })}
            {lost !== null && found.noise > 0.05 && ` ${t("price_noise", { percent: percent(found.noise) })}`}
          </p>
          <table class="stacks">
            <thead>
              <tr>
                <th scope="col">{t("clients")}</th>
                <th scope="col" class="number">{t("per_second")}</th>
                <th scope="col" class="number">{t("throughput")}</th>
                <th scope="col" class="number">{t("mean_time")}</th>
              </tr>
            </thead>
            <tbody>
              {(["held", "running"] as const).map((key, index) => (
                <tr key={key}>
                  <th scope="row">{t(key === "held" ? "without_task" : "with_task", { task: sweep_word(found.kind) })}</th>
                  <td class="number" data-label={t("per_second")}>{count(Math.round(found[key].requests_per_s))}</td>
                  <td class="number" data-label={t("throughput")}>{rate(found[key].bytes_per_s)}</td>
                  <td class="number" data-label={t("mean_time")}>{times[index] ? micros(times[index] ?? 0) : "–"}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </>
      )}
      <div class="buttons">
        <Act busy={busy || !runs} onClick={measure}>
          {t(busy ? "measuring" : "measure_price")}
        </Act>
        <span class="soft" role="status">
          {t(busy ? "measuring_long" : "measure_price_how")}
        </span>
      </div>
      <Refused error={error} />
    </div>
  );
}

function Clients({ view }: { view: ArrayView }) {
  const ways = [...view.exports, view.block_device, ...view.attached, ...view.vhost_user].filter((way): way is string => !!way);
  return (
    <section class="card">
      <h2>{t("clients")}</h2>
      <p class="soft">{t("reached_at")}</p>
      <ul class="ways">
        {ways.map((way) => (
          <li key={way} class="path">
            {way}
          </li>
        ))}
      </ul>
      {view.clients.length === 0 ? (
        <p class="soft">{t("no_client")}</p>
      ) : (
        <div class="scroll" tabIndex={0} role="region" aria-label={t("clients")}>
          <table class="stacks">
            <thead>
              <tr>
                <th scope="col">{t("client")}</th>
                <th scope="col" class="number">
                  {t("reads")}
                </th>
                <th scope="col" class="number">
                  {t("writes")}
                </th>
                <th scope="col" class="number">
                  {t("waiting")}
                </th>
                <th scope="col" class="number">
                  {t("errors")}
                </th>
              </tr>
            </thead>
            <tbody>
              {view.clients.map((client) => (
                <tr key={client.id}>
                  <th scope="row" class="path">
                    {by_words(client.peer)}
                  </th>
                  <td class="number" data-label={t("reads")}>{bytes(client.read_bytes)}</td>
                  <td class="number" data-label={t("writes")}>{bytes(client.written_bytes)}</td>
                  <td class="number" data-label={t("waiting")}>{count(client.in_flight)}</td>
                  <td class="number" data-label={t("errors")}>{count(client.errors)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function Details({ view }: { view: ArrayView }) {
  // Those of a 50 or 60 are its spans'.
  const parts = view.spans.length > 0 ? view.spans : [view];
  const bitmaps = parts.flatMap(({ bitmap }) => bitmap ?? []);
  const logs = parts.flatMap(({ log }) => log ?? []);
  const sum = (counts: number[]) => counts.reduce((sum, count) => sum + count, 0);
  const facts: [Key, string | null][] = [
    ["layout", view.layout],
    ["strip", view.strip_bytes ? bytes(view.strip_bytes) : null],
    ["bitmap", bitmaps[0] ? t("bitmap_of", { dirty: sum(bitmaps.map((one) => one.dirty_count)), all: sum(bitmaps.map((one) => one.bit_count)), chunk: bytes(bitmaps[0].chunk_bytes) }) : t("no")],
    ["write_log", logs.length > 0 ? t("log_of", { n: sum(logs.map((one) => one.early_count ?? 0)) }) : t("no")],
    ["trims", t(view.trim_zeroes ? "yes" : "no")],
    ["lanes", String(view.lanes.length)],
    ["uuid", view.uuid],
  ];
  return (
    <section class="card">
      <h2>{t("details")}</h2>
      <dl class="details">
        {facts.map(([key, value]) =>
          value === null ? null : (
            <div key={key}>
              <dt>{t(key)}</dt>
              <dd class={key === "uuid" ? "mono" : ""}>{value}</dd>
            </div>
          ),
        )}
      </dl>
    </section>
  );
}

function Actions({ entry, view }: { entry: ArrayEntry; view: ArrayView }) {
  const array = entry.name;
  // Then the plan names them, and asks for the array's name. Without it the server refuses, and the page could not stop the array.
  const force = view.clients.length > 0;
  return (
    <section class="card">
      <h2>{t("actions")}</h2>
      <div class="buttons">
        <Act onClick={() => open_plan({ action: "add", array, drive: "", span: null })}>{t("act_add")}…</Act>
        <Act onClick={() => open_plan({ action: "stop", array, force })}>{t("act_stop")}…</Act>
      </div>
      <p class="soft">{t("stop_note")}</p>
    </section>
  );
}
