// Alarms with their test, the page's own settings, and the daemon's configuration.
import { useEffect, useState } from "preact/hooks";
import { about, state } from "./live.ts";
import { Act, Ago, Pill, Refused, Sign, may, useLoaded } from "./parts.tsx";
import * as server from "./server.ts";
import { type Theme, choose_theme, theme } from "./theme.ts";
import type { ConfigVerdict, Outcome } from "./types.ts";
import { LANGUAGES, type Language, chosen, remember, t } from "./words.ts";

type Fault = { message: string; status: number };

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
  return (
    <>
      <header class="page-head">
        <h1>{t("nav_alarms")}</h1>
      </header>
      <section class="card">
        <h2>{t("alarms_standing")}</h2>
        {standing.length === 0 ? (
          <p>
            <Pill state="good">{t("no_alarm")}</Pill>
          </p>
        ) : (
          <ul class="plain-list">
            {standing.map((alarm) => (
              <li key={alarm.event + alarm.array + alarm.component}>
                <Sign name="warning" /> <strong>{alarm.array}</strong> <span lang="en">{alarm.text}</span>{" "}
                <small class="soft">
                  <Ago ms={alarm.since_s * 1000} />
                </small>
              </li>
            ))}
          </ul>
        )}
      </section>
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

export function Settings() {
  const me = server.who.value;
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
            <dd>{me ? t("you_role", { name: me.name, role: t(`role_${me.role}`) }) : "–"}</dd>
          </div>
        </dl>
        {me?.via === "session" && (
          <div class="buttons">
            <button type="button" onClick={() => void server.log_out().then(() => location.reload())}>
              {t("log_out")}
            </button>
          </div>
        )}
        <p class="soft">{t("other_pages")}</p>
        <pre>stria lab run quick --target nbd+unix:///NAME?socket=… --out lab.html{"\n"}stria plan advise --drives here --purpose vm --out plan.html</pre>
      </section>
      {may("admin") && <Configuration />}
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
  const [said, set_said] = useState("");
  const [fault, set_fault] = useState<Fault | null>(null);
  useEffect(() => {
    if (value) set_text(value.text);
  }, [value]);
  const run = async (work: () => Promise<void>) => {
    set_fault(null);
    set_verdict(null);
    set_said("");
    try {
      await work();
    } catch (reason) {
      set_fault(reason as Fault);
    }
  };
  const content = { text, tag: value?.tag ?? "" };
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
              onClick={() =>
                run(async () => {
                  set_said((await server.save_config(content)).message);
                  reload();
                })
              }
            >
              {t("save")}
            </Act>
          </div>
          <div role="status">
            {verdict && (
              <p class={verdict.good ? "good" : "bad"}>
                <Sign name={verdict.good ? "good" : "critical"} /> <span lang="en">{verdict.text}</span>
              </p>
            )}
            {said && <p lang="en">{said}</p>}
          </div>
          <Refused error={fault} />
        </>
      )}
    </section>
  );
}
