// A new array in three steps: drives, level, name. Beside each choice stands what it gives.
import { useEffect, useId, useState } from "preact/hooks";
import { is_large_enough, least_bytes } from "./cases.ts";
import { found } from "./first.tsx";
import { bytes, count, duration, micros, percent } from "./format.ts";
import { arrays, drives, drives_fault, look_at_drives } from "./live.ts";
import { Act, NoDrives, Sign, Told, useAwaited, useFocus } from "./parts.tsx";
import { DriveLine, open_plan } from "./plan.tsx";
import { Said } from "./said.tsx";
import * as server from "./server.ts";
import type { Drive, Forecasts, LevelForecast } from "./types.ts";
import { type Key, english, locale, t } from "./words.ts";

const LEVELS = ["6", "5", "10", "1", "0"] as const;
type Level = (typeof LEVELS)[number];

/** What a level makes of `n` equal drives. The server's plan says it exactly; this is to choose by. */
export type Gives = {
  /** Drives whose space is left for data. */
  data: number;
  /** Failures of any drives that lose nothing. */
  survives: number;
  /** Requests on drives for one small write. */
  small_write: number;
  /** Bytes written to drives for each byte that clients write in large pieces. */
  wear: number;
};

export function gives(level: Level, n: number): Gives | null {
  switch (level) {
    case "6":
      return n >= 4 ? { data: n - 2, survives: 2, small_write: 6, wear: n / (n - 2) } : null;
    case "5":
      return n >= 3 ? { data: n - 1, survives: 1, small_write: 4, wear: n / (n - 1) } : null;
    case "10":
      return n >= 4 ? { data: n / 2, survives: 1, small_write: 2, wear: 2 } : null;
    case "1":
      return n >= 2 ? { data: 1, survives: n - 1, small_write: n, wear: n } : null;
    case "0":
      return n >= 1 ? { data: n, survives: 0, small_write: 1, wear: 1 } : null;
  }
}

/** What is safe and wastes least of so many drives; of one drive nothing is safe. */
export const suggested = (n: number): Level | null => (n >= 4 ? "6" : n === 3 ? "5" : n === 2 ? "1" : null);

const LEAST: Record<Level, number> = { "6": 4, "5": 3, "10": 4, "1": 2, "0": 1 };
/** What the page orders without being asked, where the level has it. */
const DEFAULTS: Record<Level, Key[]> = {
  "6": ["default_strip", "default_bitmap_log"],
  "5": ["default_strip", "default_bitmap_log"],
  "10": ["default_strip", "default_bitmap"],
  "1": ["default_bitmap"],
  "0": ["default_strip"],
};

const PURPOSES = ["vm", "database", "media", "backup", "desktop"] as const;

/** The planner's forecast for these drives, asked when the second step is reached; null: not yet known. */
function useForecast(asked: boolean, drives: string[], spares: number, purpose: string, like: string): { told: Forecasts | null; busy: boolean } {
  const [told, set_told] = useState<Forecasts | null>(null);
  const [busy, set_busy] = useState(false);
  useEffect(() => {
    if (!asked || drives.length === 0) return;
    let is_current = true;
    let again: number | undefined;
    set_busy(true);
    const look = () =>
      server.forecast({ drives, spares, purpose, ...(like === "" ? {} : { like }) }).then(
        (next) => {
          if (!is_current) return;
          set_told(next);
          set_busy(next.later);
          // The planner may work for another reader first, who gets the answer at once.
          if (next.later) again = window.setTimeout(look, 1000);
        },
        // Without a forecast the laws remain, which the page knows itself.
        () => is_current && (set_told(null), set_busy(false)),
      );
    void look();
    return () => {
      is_current = false;
      window.clearTimeout(again);
    };
  }, [asked, drives.join("\n"), spares, purpose, like]);
  return { told, busy };
}

const is_choosable = (drive: Drive) => drive.users.length === 0 && !drive.error && !drive.member?.served && !(drive.pool && drive.free);

export function Create() {
  const [wanted_step, set_step] = useState(1);
  const [picked, set_picked] = useState<string[]>([]);
  const [spare, set_spare] = useState(false);
  const [level, set_level] = useState<Level | null>(null);
  const [name, set_name] = useState("");
  const [integrity, set_integrity] = useState(false);
  const [purpose, set_purpose] = useState<(typeof PURPOSES)[number]>("vm");
  const [like, set_like] = useState("");
  const id = useId();
  const list = (drives.value ?? []).filter(is_choosable);
  const chosen = list.filter((drive) => picked.includes(drive.path));
  // The drives may have gone to an array meanwhile, to this one as well.
  const step = chosen.length === 0 ? 1 : wanted_step;
  const steps = useFocus<HTMLOListElement>(step);
  useAwaited(step === 1);
  // An array that lacks a drive comes first.
  const needy = found.value.filter(({ view, remedy }) => view && remedy?.action === "add" && list.some((drive) => drive.free && is_large_enough(drive, least_bytes(view))));
  const spares = spare && chosen.length > 2 ? 1 : 0;
  const n = chosen.length - spares;
  const smallest = Math.min(...chosen.map((drive) => drive.size_bytes ?? 0));
  const used: Level = level && gives(level, n) ? level : (suggested(n) ?? "0");
  const shape = gives(used, n);
  const taken = arrays.value.some((array) => array.name === name);
  const bytes_in_name = new TextEncoder().encode(name).length;
  const name_fault: Key | null = name === "" ? null : taken ? "name_taken" : bytes_in_name > 31 ? "name_long" : /[/\s\p{Cc}:]/u.test(name) ? "name_signs" : null;
  const { told, busy } = useForecast(step === 2, chosen.slice(0, n).map((drive) => drive.path), spares, purpose, like);
  const uneven = chosen.length > 1 && Math.max(...chosen.map((drive) => drive.size_bytes ?? 0)) > smallest * 1.02;
  const mixed = new Set(chosen.map((drive) => drive.kind)).size > 1;
  const plan = () => {
    const paths = chosen.map((drive) => drive.path);
    // The server chooses what is null by the number and kind of drives.
    const chosen_by_server = { strip_bytes: null, layout: null, spans: null, member_bytes: null };
    const safe = { bitmap: true, log: true, assume_clean: false, ublk: false };
    open_plan({ action: "create", name, level: used, drives: paths.slice(0, n), spares: paths.slice(n), integrity, ...safe, ...chosen_by_server }, t("plan_create", { array: name }));
  };
  return (
    <>
      <header class="page-head">
        <h1>{t("create_array")}</h1>
      </header>
      <ol class="steps" ref={steps} tabIndex={-1} aria-label={t("steps")}>
        {([1, 2, 3] as const).map((number) => (
          <li key={number} aria-current={number === step ? "step" : undefined}>
            {t(number === 1 ? "create_drives" : number === 2 ? "create_level" : "create_name")}
          </li>
        ))}
      </ol>
      {step === 1 && (
        <section class="card">
          <NoDrives />
          {needy.map((one) => (
            <div key={one.id} class="held">
              <p class="notable">
                <Sign name="warning" /> {t("needed_first", { array: one.array })}
              </p>
              <Act onClick={() => one.remedy && open_plan(one.remedy)}>
                {t("act_add")}…<span class="hidden"> {one.array}</span>
              </Act>
            </div>
          ))}
          {list.length === 0 && drives.value && !drives_fault.value && <p>{t(drives.value.length === 0 ? "no_drives" : "no_free_drive")}</p>}
          {list.length === 0 && (
            <ul class="plain-list">
              {drives.value
                ?.filter((drive) => drive.error)
                .map((drive) => (
                  <li key={drive.path} class="soft">
                    <Said text={drive.error ?? ""} said={drive.error_said} />
                  </li>
                ))}
            </ul>
          )}
          {list.length > 0 && <fieldset class="choices">
            <legend>{t("choose_drives")}</legend>
            {list.map((drive) => (
              <label key={drive.path} class="choice">
                <input
                  type="checkbox"
                  checked={picked.includes(drive.path)}
                  onChange={(event) => set_picked(event.currentTarget.checked ? [...picked, drive.path] : picked.filter((path) => path !== drive.path))}
                />
                <DriveLine drive={drive} />
              </label>
            ))}
          </fieldset>}
          <p role="status">{chosen.length > 0 && t("chosen", { n: chosen.length, size: bytes(chosen.reduce((sum, drive) => sum + (drive.size_bytes ?? 0), 0)) })}</p>
          {uneven && (
            <p class="notable">
              <Sign name="warning" /> {t("uneven", { size: bytes(smallest) })}
            </p>
          )}
          {mixed && (
            <p class="notable">
              <Sign name="warning" /> {t("mixed")}
            </p>
          )}
          <div class="buttons">
            <button type="button" onClick={() => void look_at_drives(true)}>
              {t("look_again")}
            </button>
            <button type="button" class="primary" disabled={chosen.length === 0} onClick={() => set_step(2)}>
              {t("next")}
            </button>
          </div>
        </section>
      )}
      {step === 2 && (
        <section class="card">
          {chosen.length > 2 && (
            <label class="check">
              <input type="checkbox" checked={spare} onChange={(event) => set_spare(event.currentTarget.checked)} /> {t("keep_spare")}
            </label>
          )}
          <div class="filters">
            <label>
              {t("purpose")}
              <select value={purpose} onChange={(event) => set_purpose(event.currentTarget.value as typeof purpose)}>
                {PURPOSES.map((one) => (
                  <option key={one} value={one}>
                    {t(`purpose_${one}`)}
                  </option>
                ))}
              </select>
            </label>
            {told && told.known.length > 0 && (
              <label>
                {t("forecast_like")}
                <select value={like} onChange={(event) => set_like(event.currentTarget.value)}>
                  <option value="">{t("by_model")}</option>
                  {told.known.map((drive) => (
                    <option key={drive.key} value={drive.key} lang="en">
                      {drive.name}
                    </option>
                  ))}
                </select>
              </label>
            )}
          </div>
          <p class="soft" role="status">
            {busy ? t("forecasting") : told?.by_plan ? <Told text={t("forecast_by_plan", { drive: english(told.text) })} /> : t("forecast_by_law")} {!busy && told && !told.by_plan && <span lang="en">({told.text})</span>}
          </p>
          <fieldset class="levels">
            <legend>{t("choose_level", { n })}</legend>
            {LEVELS.map((one) => {
              const what = gives(one, n);
              return (
                <label key={one} class={`level${what ? "" : " off"}`}>
                  <input type="radio" name="level" disabled={!what} checked={used === one} onChange={() => set_level(one)} />
                  <span class="level-head">
                    <strong>{t("raid", { level: one })}</strong>
                    {one === suggested(n) && <Pill_suggested />}
                  </span>
                  <span class="soft">{t(`level_${one}`)}</span>
                  {what ? (
                    <span class="gives">
                      <span>
                        <small>{t("space")}</small>
                        <b>{bytes(what.data * smallest)}</b>
                        <small>{percent(what.data / n)}</small>
                      </span>
                      <span>
                        <small>{t("survives")}</small>
                        <b>{what.survives}</b>
                        <small>{t("failures", { n: what.survives })}</small>
                      </span>
                      <span>
                        <small>{t("small_write")}</small>
                        <b>{what.small_write}</b>
                        <small>{t("requests", { n: what.small_write })}</small>
                      </span>
                      <span>
                        <small>{t("wear")}</small>
                        <b>{what.wear.toLocaleString(locale.value, { maximumFractionDigits: 2 })}</b>
                        <small>{t("per_byte")}</small>
                      </span>
                      {told?.by_plan && !busy && <Planned of={told.levels.find((level) => level.level === one)} />}
                    </span>
                  ) : (
                    <span class="soft">{t("too_few", { n: LEAST[one] })}</span>
                  )}
                </label>
              );
            })}
          </fieldset>
          <div class="buttons">
            <button type="button" onClick={() => set_step(1)}>
              {t("back")}
            </button>
            <button type="button" class="primary" onClick={() => set_step(3)}>
              {t("next")}
            </button>
          </div>
        </section>
      )}
      {step === 3 && shape && (
        <form
          class="card"
          onSubmit={(event) => {
            event.preventDefault();
            if (name !== "" && !name_fault) plan();
          }}
        >
          <p class="lead">{t("create_sum", { level: used, n, size: bytes(shape.data * smallest), spares })}</p>
          <p class="field">
            <label for={id}>{t("array_name")}</label>
            <input id={id} value={name} onInput={(event) => set_name(event.currentTarget.value)} autocomplete="off" spellcheck={false} aria-describedby={`${id}-hint`} aria-invalid={name_fault !== null} />
            <span id={`${id}-hint`} class={name_fault ? "bad" : "soft"}>
              {t(name_fault ?? "name_hint")}
            </span>
          </p>
          <label class="check">
            <input type="checkbox" checked={integrity} onChange={(event) => set_integrity(event.currentTarget.checked)} /> {t(used === "0" ? "with_checksums_bare" : "with_checksums")}
          </label>
          <p class="soft">{DEFAULTS[used].map((key) => t(key)).join(" ")}</p>
          <div class="buttons">
            <button type="button" onClick={() => set_step(2)}>
              {t("back")}
            </button>
            <Act primary role="admin" busy={name === "" || name_fault !== null} onClick={plan}>
              {t("show_plan")}
            </Act>
          </div>
        </form>
      )}
    </>
  );
}

/** The planner's figures of one level. */
function Planned({ of }: { of: LevelForecast | undefined }) {
  if (!of) return null;
  const figure = (key: Key, value: string, more: string) => (
    <span class="planned">
      <small>{t(key)}</small>
      <b>{value}</b>
      <small>{more}</small>
    </span>
  );
  return (
    <>
      {figure("forecast_speed", count(Math.round(of.requests_per_s / 100) * 100), t("requests_per_s"))}
      {figure("forecast_time", micros(of.mean_us), of.read_p99_us ? t("p99_reads", { time: micros(of.read_p99_us) }) : "")}
      {of.degraded_share && figure("forecast_degraded", percent(of.degraded_share), t("of_speed"))}
      {of.rebuild_s && figure("forecast_rebuild", duration(of.rebuild_s), t("clients_idle"))}
      {figure("forecast_loss", odds(of.loss_per_year), t("a_year"))}
    </>
  );
}

/** Below this the models' assumptions, not the drives, decide. */
const SMALLEST = 1e-6;

/** A small probability as people say it: one in so many, in one figure. */
function odds(probability: number): string {
  if (probability < SMALLEST) return t("less_than_one_in", { n: 1 / SMALLEST });
  const of = 1 / probability;
  const unit = 10 ** Math.floor(Math.log10(of));
  return t("one_in", { n: Math.round(of / unit) * unit });
}

const Pill_suggested = () => (
  <span class="pill good">
    <Sign name="good" />
    {t("suggested")}
  </span>
);
