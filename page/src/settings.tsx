// Alarms with their test, the page's own settings, and the daemon's configuration.
import { useEffect, useState } from "preact/hooks";
import { now, time, zone } from "./format.ts";
import { about, arrays, here, server_zone, state } from "./live.ts";
import { KnownBy, Untold, found } from "./first.tsx";
import { type Fault, Act, Ago, Pill, Refused, Sign, Told, may, useLoaded } from "./parts.tsx";
import * as server from "./server.ts";
import { type Theme, choose_theme, theme } from "./theme.ts";
import type { Alarm, AlarmSettings, ConfigVerdict, Message, Outcome, RoutineSettings } from "./types.ts";
import { is_cockpit } from "./way.ts";
import { Said, alarm_word, all_worded, by_words, worded } from "./said.tsx";
import { type Key, LANGUAGES, type Language, chosen, english, language, remember, t } from "./words.ts";

export function Alarms() {
  const [tested, set_tested] = useState<Outcome[] | null>(null);
  const [error, set_error] = useState<Fault | null>(null);
  const [busy, set_busy] = useState(false);
  const test = async () => {
    set_busy(true);
    set_error(null);
    try {
      set_tested(await server.test_alarms());
    } catch (reason) {
      set_error(reason as Fault);
    }
    set_busy(false);
  };
  const standing = state.value?.alarms ?? [];
  // An alarm may come later than its matter, or not at all.
  const open = found.value.filter((one) => one.severity !== "notice").length;
  return (
    <>
      <header class="page-head">
        <h1>{t("nav_alarms")}</h1>
      </header>
      <Untold />
      <section class="card">
        <h2>{t("alarms_standing")}</h2>
        {standing.length === 0 ? (
          <p>
            <Pill state={open > 0 || state.value?.summary.told_by.length === 0 ? "notice" : "good"}>{t("no_alarm")}</Pill> {open > 0 && <a href="#/">{t("wrong_here", { n: open })}</a>}
          </p>
        ) : (
          <ul class="plain-list">
            {standing.map((alarm) => (
              <li key={`${alarm.event} ${alarm.array} ${alarm.component}`}>
                <Sign name="warning" /> <strong>{alarm.array}</strong> {worded(alarm.said) === null && language.value !== "en" && typeof alarm.event === "string" && `${alarm_word(alarm.event)}: `}
                <Said text={alarm.text} said={alarm.said} />{" "}
                <small class="soft">
                  <Ago ms={alarm.since_s * 1000} />
                </small>
                <Acknowledge alarm={alarm} />
              </li>
            ))}
          </ul>
        )}
        {standing.length > 0 && <p class="note">{t("acknowledge_means")}</p>}
      </section>
      {may("admin") && <Channels />}
      <section class="card">
        <h2>{t("alarm_test")}</h2>
        <p class="soft">{t("alarm_test_means")}</p>
        <div class="buttons">
          <Act primary busy={busy} onClick={test}>
            {t("send_test")}
          </Act>
        </div>
        <Refused error={error} />
        <div role="status">
          {tested?.length === 0 && (
            <p class="notable">
              <Sign name="warning" /> {t("no_channel")}
            </p>
          )}
          {tested && tested.length > 0 && (
            <ul class="plain-list">
              {tested.map((one) => (
                <li key={one.channel} class={one.error ? "bad" : "good"}>
                  <Sign name={one.error ? "critical" : "good"} /> {one.channel}: {one.error ? <span lang="en">{one.error}</span> : t("channel_took_it")}
                </li>
              ))}
            </ul>
          )}
        </div>
      </section>
    </>
  );
}

/** Who knows of an alarm, and the button to say so. */
function Acknowledge({ alarm }: { alarm: Alarm }) {
  const [error, set_error] = useState<Fault | null>(null);
  const [busy, set_busy] = useState(false);
  const [note, set_note] = useState("");
  const is_known = !!alarm.acknowledged;
  const subject = ` ${[alarm.array, alarm_word(String(alarm.event)), alarm.component].filter(Boolean).join(" ")}`;
  const send = async () => {
    set_busy(true);
    set_error(null);
    try {
      // The stream brings the alarm as it is then.
      await server.acknowledge(alarm, is_known, is_known ? "" : note.trim());
      set_note("");
    } catch (reason) {
      set_error(reason as Fault);
    }
    set_busy(false);
  };
  return (
    <div class="held">
      <KnownBy known={alarm.acknowledged} />
      {!is_known && (
        <label class="note">
          <span>
            {t("note_label")}
            <span class="hidden">{subject}</span>
          </span>
          <input value={note} maxLength={400} onInput={(event) => set_note(event.currentTarget.value)} autocomplete="off" />
        </label>
      )}
      <Act busy={busy} onClick={send}>
        {t(is_known ? "unacknowledge" : "acknowledge")}
        <span class="hidden">{subject}</span>
      </Act>
      <Refused error={error} />
    </div>
  );
}

/** What the server says of an order that is done. */
function Answered({ of }: { of: Message }) {
  return <Told text={all_worded(of.ends) ?? english(of.message)} />;
}

/** Saves a form, and keeps what the server said. `reload` brings what is stored then. */
function useSaving(send: (() => Promise<Message>) | null, reload: () => void) {
  const [said, set_said] = useState<Message | null>(null);
  const [fault, set_fault] = useState<Fault | null>(null);
  const save = async () => {
    if (!send) return;
    set_fault(null);
    set_said(null);
    try {
      set_said(await send());
      reload();
    } catch (reason) {
      set_fault(reason as Fault);
      // Somebody else has changed them: the form shows what they are now.
      if (reason instanceof server.Refusal && reason.kind === "plan_changed") reload();
    }
  };
  return { save, said, fault };
}

/** The end of a form: its button, and what came of pressing it. */
function Save({ saving, unchanged }: { saving: ReturnType<typeof useSaving>; unchanged: boolean }) {
  return (
    <>
      <div class="buttons">
        <Act primary role="admin" busy={unchanged} onClick={saving.save}>
          {t("save")}
        </Act>
      </div>
      <p role="status">{saving.said && <Answered of={saving.said} />}</p>
      <Refused error={saving.fault} />
    </>
  );
}

/** Who is told of alarms: the channels that need one line each. */
function Channels() {
  const { value, error, reload } = useLoaded(server.alarm_settings, []);
  const [form, set_form] = useState<AlarmSettings | null>(null);
  const [mail, set_mail] = useState("");
  useEffect(() => {
    set_form(value);
    set_mail(value?.mail?.join(", ") ?? "");
  }, [value]);
  const wanted = form && { ...form, mail: mail.split(/[\s,;]+/).filter((one) => one !== "") };
  const saving = useSaving(wanted && (() => server.set_alarms(wanted)), reload);
  return (
    <section class="card">
      <h2>{t("alarms_go")}</h2>
      <Refused error={error} />
      {form && (
        <form onSubmit={(event) => (event.preventDefault(), void saving.save())}>
          <p class="field">
            <label for="alarm-mail">{t("alarm_mail")}</label>
            <input id="alarm-mail" value={mail} onInput={(event) => set_mail(event.currentTarget.value)} autocomplete="email" spellcheck={false} placeholder="you@example.org" />
          </p>
          <p class="field">
            <label for="alarm-webhook">{t("alarm_webhook")}</label>
            <input id="alarm-webhook" type="url" value={form.webhook ?? ""} onInput={(event) => set_form({ ...form, webhook: event.currentTarget.value.trim() })} autocomplete="off" placeholder="https://" />
          </p>
          <p class="note">{t("alarm_others")}</p>
          <Save saving={saving} unchanged={JSON.stringify(wanted) === JSON.stringify(value)} />
        </form>
      )}
    </section>
  );
}

export function Settings() {
  const me = server.who.value;
  const [error, set_error] = useState<Fault | null>(null);
  return (
    <>
      <header class="page-head">
        <h1>{t("nav_settings")}</h1>
      </header>
      <section class="card">
        <h2>{t("this_page")}</h2>
        <div class="filters">
          <label>
            {t("language")}
            <select value={chosen.value ?? ""} onChange={(event) => choose_language(event.currentTarget.value)}>
              <option value="">{t("as_browser")}</option>
              {Object.entries(LANGUAGES).map(([tag, name]) => (
                <option key={tag} value={tag} lang={tag}>
                  {name}
                </option>
              ))}
            </select>
          </label>
          <label>
            {t("theme")}
            <select value={theme.value} onChange={(event) => choose_theme(event.currentTarget.value as Theme)}>
              <option value="auto">{t("theme_auto")}</option>
              <option value="light">{t("theme_light")}</option>
              <option value="dark">{t("theme_dark")}</option>
            </select>
          </label>
        </div>
        <p class="note">{t("times_here", { zone: zone() })}</p>
      </section>
      <section class="card">
        <h2>{t("server")}</h2>
        <dl class="details">
          <div>
            <dt>{t("machine")}</dt>
            <dd>{about.value?.machine ?? "–"}</dd>
          </div>
          <div>
            <dt>{t("version")}</dt>
            <dd>{about.value?.version ?? "–"}</dd>
          </div>
          <div>
            <dt>{t("you_are")}</dt>
            <dd>{me ? t("you_role", { name: by_words(me.name), role: t(`role_${me.role}`) }) : "–"}</dd>
          </div>
        </dl>
        {me?.via === "session" && (
          <div class="buttons">
            <button type="button" onClick={() => void server.log_out().then(() => location.reload(), set_error)}>
              {t("log_out")}
            </button>
            <Refused error={error} />
          </div>
        )}
        <p class="soft">{t("other_pages")}</p>
        <Reports />
      </section>
      <Schedules />
      {may("admin") && <Configuration />}
    </>
  );
}

/** What a schedule may be without knowing how systemd writes it. */
const USUAL: [Key, string][] = [
  ["never", "never"],
  ["each_week", "weekly"],
  ["each_month", "Sun *-*-1..7 01:00"],
  ["each_quarter", "quarterly"],
];

/** A choice of the usual schedules; any other is written as systemd does. */
function Schedule({ label, value, onChange, usual }: { label: string; value: string; onChange: (text: string) => void; usual?: string }) {
  const [own, set_own] = useState(value !== "" && !USUAL.some(([, text]) => text === value));
  const is_own = own || (value !== "" && !USUAL.some(([, text]) => text === value));
  return (
    <div class="schedule">
      <label>
        {label}
        <select
          value={is_own ? "own" : value}
          onChange={(event) => {
            const chosen = event.currentTarget.value;
            set_own(chosen === "own");
            if (chosen !== "own") onChange(chosen);
          }}
        >
          {usual !== undefined && <option value="">{usual}</option>}
          {USUAL.map(([key, text]) => (
            <option key={text} value={text}>
              {t(key)}
            </option>
          ))}
          <option value="own">{t("own_schedule")}</option>
        </select>
      </label>
      {is_own && (
        <label>
          <span class="hidden">{label}: </span>
          {t("as_systemd")}
          <input value={value} onInput={(event) => onChange(event.currentTarget.value)} autocomplete="off" spellcheck={false} placeholder="Sat *-*-* 02:00" />
        </label>
      )}
    </div>
  );
}

/** When scrubs and self-tests run, what the last ones found, and a form to set it. */
function Schedules() {
  const { value: list, error: list_error, reload: reload_list } = useLoaded(server.routine, []);
  const { value, error, reload } = useLoaded(server.routine_settings, []);
  const [form, set_form] = useState<RoutineSettings | null>(null);
  useEffect(() => set_form(value), [value]);
  const change = (part: Partial<RoutineSettings>) => form && set_form({ ...form, ...part });
  const redundant = arrays.value.filter((entry) => entry.view && entry.view.level !== "0" && entry.view.level !== "jbod");
  const send = async (form: RoutineSettings) => {
    const scrubs = Object.fromEntries(Object.entries(form.scrubs ?? {}).filter(([, text]) => text !== ""));
    const message = await server.set_routine({ ...form, scrubs });
    reload_list();
    return message;
  };
  const saving = useSaving(form && (() => send(form)), reload);
  return (
    <section class="card">
      <h2>{t("schedules")}</h2>
      <p class="soft">{t("schedules_zone", { zone: zone(), server: server_zone() })}</p>
      <Refused error={list_error} />
      {list?.length === 0 && <p class="soft">{t("no_schedule")}</p>}
      {list && list.length > 0 && (
        <div class="scroll" tabIndex={0} role="region" aria-label={t("schedules")}>
          <table class="stacks">
            <thead>
              <tr>
                <th scope="col">{t("what")}</th>
                <th scope="col">{t("last_time")}</th>
                <th scope="col">{t("next_time")}</th>
                <th scope="col">{t("outcome")}</th>
              </tr>
            </thead>
            <tbody>
              {list.map((one) => (
                <tr key={one.what + one.of}>
                  <th scope="row">
                    {t(one.what === "scrub" ? "scrub" : one.what === "self-test" ? "self_test" : "long_self_test")} <span class="path">{one.of}</span>
                    <small>{one.running ? t("runs_now") : one.interrupted ? t("interrupted") : one.schedule}</small>
                  </th>
                  <td data-label={t("last_time")}>{one.last_s ? time(here(one.last_s * 1000)) : t("not_yet")}</td>
                  <td data-label={t("next_time")}>{one.next_s ? (here(one.next_s * 1000) < now.value ? t("due") : time(here(one.next_s * 1000))) : "–"}</td>
                  <td data-label={t("outcome")}>{one.outcome ? <Said text={one.outcome} said={one.said} /> : "–"}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <Refused error={error} />
      {form && may("admin") && (
        <form class="schedules" onSubmit={(event) => (event.preventDefault(), void saving.save())}>
          <Schedule label={t("scrub_all")} value={form.scrub} onChange={(scrub) => change({ scrub })} />
          {redundant.length > 1 &&
            redundant.map(({ name }) => (
              <Schedule key={name} label={t("scrub_of", { array: name })} value={form.scrubs?.[name] ?? ""} usual={t("as_all")} onChange={(text) => change({ scrubs: { ...form.scrubs, [name]: text } })} />
            ))}
          <Schedule label={t("self_tests")} value={form.self_test} onChange={(self_test) => change({ self_test })} />
          <Schedule label={t("long_self_tests")} value={form.long_self_test} onChange={(long_self_test) => change({ long_self_test })} />
          <div class="schedule">
            <label>
              {t("quiet_hours")}
              <input value={form.hours ?? ""} onInput={(event) => change({ hours: event.currentTarget.value })} autocomplete="off" placeholder="22:00-06:00" aria-describedby="hours-hint" />
            </label>
            <span id="hours-hint" class="soft">
              {t("quiet_hours_hint", { server: server_zone() })}
            </span>
          </div>
          <Save saving={saving} unchanged={JSON.stringify(form) === JSON.stringify(value)} />
        </form>
      )}
    </section>
  );
}

/** Pages that the laboratory and the planner have made on the server. */
function Reports() {
  const { value, error } = useLoaded(server.reports, []);
  return (
    <>
      <Refused error={error} />
      {value && value.files.length > 0 && (
        <ul class="plain-list">
          {value.files.map((file) => (
            <li key={file.name}>
              {is_cockpit ? (
                <span class="path">{file.name}</span>
              ) : (
                <a href={server.report_address(file.name)} target="_blank" rel="noopener">
                  {file.name}
                </a>
              )}{" "}
              <small class="soft">{time(here(file.changed_ms))}</small>
            </li>
          ))}
        </ul>
      )}
      {value?.files.length === 0 && <p>{t("no_reports")}</p>}
      {value && <p class="note">{t("reports_lie", { folder: value.folder })}</p>}
    </>
  );
}

function choose_language(tag: string) {
  chosen.value = tag === "" ? null : (tag as Language);
  remember("language", chosen.value);
}

function Configuration() {
  const { value, error, reload } = useLoaded(server.config, []);
  const [text, set_text] = useState("");
  const [verdict, set_verdict] = useState<ConfigVerdict | null>(null);
  const [is_refused, set_refused] = useState(false);
  const [said, set_said] = useState<Message | null>(null);
  const [fault, set_fault] = useState<Fault | null>(null);
  /** The file's text on which the reader's edit is based. */
  const [base, set_base] = useState("");
  const [beside, set_beside] = useState<string | null>(null);
  useEffect(() => {
    if (!value) return;
    // The reader's edit stays. The file as it is now is shown beside it.
    if (text !== base && value.text !== text) return set_beside(value.text === base ? null : value.text);
    set_base(value.text);
    set_text(value.text);
    set_beside(null);
  }, [value]);
  const run = async (work: () => Promise<void>) => {
    set_fault(null);
    set_verdict(null);
    set_refused(false);
    set_said(null);
    try {
      await work();
    } catch (reason) {
      set_fault(reason as Fault);
    }
  };
  const content = { text, tag: value?.tag ?? "" };
  const save = async () => {
    try {
      set_said(await server.save_config(content));
      reload();
    } catch (reason) {
      // Line by line, as a check shows them.
      const found = reason instanceof server.Refusal && reason.kind === "invalid" ? await server.check_config(content) : null;
      if (!found || found.faults.length === 0) throw reason;
      set_refused(true);
      set_verdict(found);
    }
  };
  return (
    <section class="card">
      <h2>{t("configuration")}</h2>
      <p class="soft">{t("configuration_means")}</p>
      <Refused error={error} />
      {value && (
        <>
          <label>
            <span class="hidden">{t("configuration")}</span>
            <textarea rows={16} spellcheck={false} value={text} onInput={(event) => set_text(event.currentTarget.value)} />
          </label>
          <div class="buttons">
            <button
              type="button"
              onClick={() =>
                run(async () => {
                  set_verdict(await server.check_config(content));
                })
              }
            >
              {t("check")}
            </button>
            <Act
              primary
              role="admin"
              busy={text === value.text}
              onClick={() => run(save)}
            >
              {t("save")}
            </Act>
          </div>
          <div role="status">
            {is_refused && <p class="bad">{t("not_saved")}</p>}
            {verdict &&
              (verdict.faults.length > 0 ? (
                <ul class="bad">
                  {verdict.faults.map((found) => (
                    <li key={`${found.line} ${found.text}`}>
                      <Sign name="critical" /> <span lang="en">{found.line == null ? found.text : `${found.line}: ${found.text}`}</span>
                    </li>
                  ))}
                </ul>
              ) : (
                <p class={verdict.good ? "good" : "bad"}>
                  <Sign name={verdict.good ? "good" : "critical"} /> <span lang="en">{verdict.text}</span>
                </p>
              ))}
            {said && <p><Answered of={said} /></p>}
          </div>
          <Refused error={fault} />
          {fault?.status === 409 && (
            <div class="buttons">
              <button type="button" onClick={() => (set_fault(null), reload())}>
                {t("read_again")}
              </button>
            </div>
          )}
          {beside !== null && (
            <label>
              {t("file_now")}
              <textarea rows={16} readOnly value={beside} />
            </label>
          )}
        </>
      )}
    </section>
  );
}
